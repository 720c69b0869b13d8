"""A plugin is a stranger: whatever it does costs itself, and nobody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from forebay import (
    DeviceError,
    DeviceId,
    DeviceKind,
    Event,
    EventKind,
    HardwareAdapter,
    PluginCrashedError,
    PluginError,
    PluginQuarantinedError,
    PluginTimeoutError,
    UnsupportedError,
)
from forebay_core.plugins import PluginState
from forebay_core.plugins.manager import PluginManager
from polling import wait_until
from strangers import ADAPTER, Make

Open = Callable[..., PluginManager]


def adapter_with(body: str) -> str:
    """Return the code of an adapter whose ``discover`` does something else."""
    return ADAPTER.replace(
        'return DeviceReport(devices=(Device(DeviceId(NAME + "-0"), DeviceKind.NPU),))', body
    )


def adapters(manager: PluginManager) -> dict[str, HardwareAdapter]:
    return {offered.name: offered.object for offered in manager.hardware_adapters()}


def state(manager: PluginManager, plugin: str = "stranger") -> PluginState:
    (record,) = (record for record in manager.records() if record.id == plugin)
    return record.state


CALLS = {
    "hangs": ("while True: pass", PluginTimeoutError, "did not answer discover within 0.5 s"),
    "segfaults": (
        "import ctypes; ctypes.string_at(0)",
        PluginCrashedError,
        "killed by SIGSEGV",
    ),
    "exits": ("import os; os._exit(3)", PluginCrashedError, "exit status 3"),
    "raises": ("raise RuntimeError('boom')", PluginError, "raised RuntimeError: boom"),
    "asks to exit": ("raise SystemExit(0)", PluginError, "raised SystemExit: 0"),
    "answers nonsense": ("return 42", PluginError, "breaks the contract: found 42"),
    "answers what is no value": ("return object()", PluginError, "not a value of the contract"),
    "answers the wrong kind": (
        "return DeviceReport(devices=(Device(DeviceId('x'), 'warp'),))",
        PluginError,
        "expected one of: cpu, gpu",
    ),
}


@pytest.mark.parametrize("case", sorted(CALLS))
def test_a_call_that_goes_wrong_costs_that_plugin_alone(
    case: str, install: Make, open_manager: Open
) -> None:
    body, error, message = CALLS[case]
    install("stranger", code=adapter_with(body), extra="call_deadline_s = 0.5")
    install("neighbour")
    manager = open_manager()
    found = adapters(manager)
    with pytest.raises(error, match=r"plugin stranger: .*") as caught:
        found["stranger"].discover()
    assert message in str(caught.value)
    assert state(manager) is PluginState.DEGRADED
    (device,) = found["neighbour"].discover().devices
    assert device.kind is DeviceKind.NPU
    assert state(manager, "neighbour") is PluginState.LOADED


LOADS = {
    "import raises": ("raise ImportError('no such library')", "no such library"),
    "import exits": ("raise SystemExit(1)", "import of stranger_package failed: SystemExit"),
    "import kills": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
    "syntax": ("def (", "SyntaxError"),
    "no hook": ("", "does not implement forebay_hardware_adapters"),
    "no mark": (ADAPTER.replace("@hookimpl\n", ""), "does not implement forebay_hardware"),
    "another hook": (
        ADAPTER + "@hookimpl\ndef forebay_engines(context): return []\n",
        "implements forebay_engines, which its manifest does not declare",
    ),
    "wrong argument": (ADAPTER.replace("(context)", "(ctx)"), "ctx"),
    "hook raises": (
        "@hookimpl\ndef forebay_hardware_adapters(context): raise KeyError('x')\n",
        "KeyError",
    ),
    "hook returns another thing": (
        "@hookimpl\ndef forebay_hardware_adapters(context): return [1]\n",
        "offered int, expected HardwareAdapter",
    ),
    "hook returns nothing": (
        "@hookimpl\ndef forebay_hardware_adapters(context): pass\n",
        "returned NoneType, expected a sequence",
    ),
    "no name": (ADAPTER.replace("    name = NAME\n", ""), "has no name"),
    "abstract": (
        ADAPTER.replace("    def prepare(self, lease):\n        return DeviceAccess()\n", ""),
        "abstract method",
    ),
}


@pytest.mark.parametrize("case", sorted(LOADS))
def test_a_plugin_that_cannot_be_loaded_is_left_out_with_the_reason(
    case: str, install: Make, open_manager: Open
) -> None:
    code, message = LOADS[case]
    install("stranger", code=code)
    install("neighbour")
    manager = open_manager()
    assert set(adapters(manager)) == {"neighbour"}
    (problem,) = manager.problems()
    assert problem.id == "stranger"
    assert message in problem.last_error


def test_a_flood_on_stdout_neither_blocks_nor_corrupts(install: Make, open_manager: Open) -> None:
    flood = 'print("x" * 10_000_000, flush=True); return DeviceReport(absent="done")'
    install("stranger", code="print('hello from import')\n" + adapter_with(flood))
    assert adapters(open_manager())["stranger"].discover().absent == "done"


def test_what_a_plugin_printed_last_is_told_when_it_crashes(
    install: Make, open_manager: Open
) -> None:
    body = "import os; print('the driver is on fire', flush=True); os._exit(1)"
    install("stranger", code=adapter_with(body))
    with pytest.raises(PluginCrashedError, match="the driver is on fire"):
        adapters(open_manager())["stranger"].discover()


def test_errors_of_the_contract_keep_their_type_and_cost_nothing(
    install: Make, open_manager: Open
) -> None:
    install("stranger", code=adapter_with("raise DeviceLostError('gone', fix='Plug it in.')"))
    manager = open_manager()
    adapter = adapters(manager)["stranger"]
    with pytest.raises(DeviceError, match="gone") as caught:
        adapter.discover()
    assert type(caught.value).__name__ == "DeviceLostError"
    assert caught.value.fix == "Plug it in."
    with pytest.raises(UnsupportedError, match="offers no telemetry"):
        adapter.telemetry([DeviceId("x")])
    assert state(manager) is PluginState.LOADED


def test_an_error_derived_from_the_contracts_arrives_as_that(
    install: Make, open_manager: Open
) -> None:
    body = """
        class Odd(PermissionDeniedError): pass
        raise Odd("not for you")"""
    install("stranger", code=adapter_with(body.strip()))
    manager = open_manager()
    with pytest.raises(DeviceError, match="not for you") as caught:
        adapters(manager)["stranger"].discover()
    assert type(caught.value).__name__ == "PermissionDeniedError"
    assert state(manager) is PluginState.LOADED


ONCE = """
import os, pathlib
mark = pathlib.Path(__file__).with_name("crashed")
if not mark.exists():
    mark.touch()
    os._exit(1)
return DeviceReport(absent="recovered")
""".replace("\n", "\n        ")


def test_after_a_crash_it_is_started_again(install: Make, open_manager: Open) -> None:
    install("stranger", code=adapter_with(ONCE))
    manager = open_manager()
    adapter = adapters(manager)["stranger"]
    with pytest.raises(PluginCrashedError):
        adapter.discover()
    assert state(manager) is PluginState.DEGRADED
    assert adapter.discover().absent == "recovered"
    assert state(manager) is PluginState.LOADED


def test_after_five_failures_in_a_row_it_is_called_no_more(
    install: Make, open_manager: Open
) -> None:
    install("stranger", code=adapter_with("import os; os._exit(1)"))
    manager = open_manager()
    adapter = adapters(manager)["stranger"]
    for _ in range(5):
        with pytest.raises(PluginCrashedError):
            adapter.discover()
    assert state(manager) is PluginState.QUARANTINED
    with pytest.raises(PluginQuarantinedError, match="exit status 1"):
        adapter.discover()


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("fail-closed", "quarantined"), ("reload", "degraded"), ("ignore", "degraded")],
)
def test_the_failure_policy_decides_what_a_failure_means(
    policy: str, expected: str, install: Make, open_manager: Open
) -> None:
    install(
        "stranger",
        code=adapter_with("raise RuntimeError('boom')"),
        extra=f'failure_policy = "{policy}"',
    )
    manager = open_manager()
    with pytest.raises(PluginError):
        adapters(manager)["stranger"].discover()
    assert state(manager) == expected


OBSERVER = "@hookimpl\ndef forebay_observe(context, event):\n    BODY\n"
EVENT = Event(1, 0.0, EventKind.JOB_SUBMITTED, "1")


def test_an_observer_that_raises_is_left_and_the_others_are_told(
    install: Make, open_manager: Open, site: Path
) -> None:
    install("bad", code=OBSERVER.replace("BODY", "raise SystemExit(9)"), kinds='["observer"]')
    seen = "with open(__file__ + '.seen', 'a') as file: file.write(str(event.sequence))"
    good = install("good", code=OBSERVER.replace("BODY", seen), kinds='["observer"]')
    manager = open_manager()
    for _ in range(7):
        manager.observe(EVENT)
    assert state(manager, "bad") is PluginState.QUARANTINED
    assert (good / "__init__.py.seen").read_text() == "1" * 7


def test_an_observer_that_is_slow_is_called_no_more(install: Make, open_manager: Open) -> None:
    slow = OBSERVER.replace("BODY", "import time; time.sleep(0.06)")
    install("stranger", code=slow, kinds='["observer"]')
    manager = open_manager()
    for _ in range(25):
        manager.observe(EVENT)
    assert state(manager) is PluginState.QUARANTINED
    (record,) = manager.records()
    assert record.calls < 25
    assert "at most 50 ms" in record.reason


HOST = """
import sys, time
from pathlib import Path
from forebay import NodeId
from forebay_core.config import Config
from forebay_core.plugins.manager import PluginManager
manager = PluginManager(
    Config(), node=NodeId("n"), state_directory=Path(sys.argv[1]), path=[sys.argv[2]]
)
(adapter,) = manager.hardware_adapters()
print("ready", flush=True)
adapter.object.discover()
"""


def test_a_plugin_never_outlives_its_host(install: Make, site: Path, tmp_path: Path) -> None:
    install("stranger", code=adapter_with("import time; time.sleep(600)"))
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, str(tmp_path / "state"), str(site)], stdout=subprocess.PIPE
    )
    assert host.stdout is not None
    assert host.stdout.readline() == b"ready\n"
    (child,) = wait_until(lambda: psutil.Process(host.pid).children())
    os.kill(host.pid, signal.SIGKILL)
    host.wait()
    host.stdout.close()
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_two_plugins_cannot_offer_the_same_name(install: Make, open_manager: Open) -> None:
    install("first")
    install("second", code=ADAPTER.replace("name = NAME", "name = 'first'"))
    manager = open_manager()
    (offered,) = manager.hardware_adapters()
    assert offered.plugin == "first"
    (problem,) = manager.problems()
    assert problem.id == "second"
    assert "a name that plugin first has taken" in problem.last_error
