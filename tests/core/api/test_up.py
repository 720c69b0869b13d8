from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from live_service import FOREBAY, LiveService
from polling import wait_until


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [FOREBAY, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_second_service_is_refused_and_told_the_process_of_the_first(
    service: LiveService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREBAY_HOME", str(service.home))

    refused = run("up", "--port", "0", "--json")

    assert refused.returncode == 5
    assert f"its process is {service.process.pid}" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not refused.stdout
    assert service.get("/healthz")["status"] == "ok"


def test_a_port_in_use_is_one_clear_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        refused = run("up", "--port", str(port))

    assert refused.returncode == 5
    assert f"port {port}" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("option", [["--refresh", "0s"], ["--refresh", "often"], ["--port", "-1"]])
def test_a_wrong_option_is_refused(option: list[str]) -> None:
    refused = run("up", *option)

    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr


def test_an_address_of_another_machine_is_refused() -> None:
    # TEST-NET-1 of RFC 5737 belongs to no machine.
    refused = run("up", "--host", "192.0.2.1", "--port", "0")

    assert refused.returncode == 5
    assert "192.0.2.1" in refused.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_service_while_its_work_goes_on(
    forebay_home: Path, tmp_path: Path, number: signal.Signals
) -> None:
    done = tmp_path / "done"
    go = tmp_path / "go"
    with LiveService(forebay_home, tmp_path / "log") as service:
        job = service.submit(["sh", "-c", f"until [ -e '{go}' ]; do sleep 0.02; done; : >'{done}'"])
        wait_until(lambda: service.get(f"/v1/jobs/{job}")["job"]["state"] == "running")
        began = time.monotonic()
        assert service.end(number) == 0
        assert time.monotonic() - began < 5
    go.touch()
    wait_until(done.exists)

    with LiveService(forebay_home, tmp_path / "log") as service:
        found = service.get(f"/v1/jobs/{job}")["job"]
        assert (found["state"], found["exit_status"]) == ("completed", 0)
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_what_it_prints_tells_a_person_where_to_look(forebay_home: Path) -> None:
    process = subprocess.Popen(
        [FOREBAY, "up", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        shown = []
        for line in process.stdout:
            shown.append(line)
            if line.startswith("try "):
                break
        text = "".join(shown)
        subprocess.run([FOREBAY, "submit", "true"], check=True, capture_output=True, timeout=60)
        for line in process.stdout:
            if "completed" in line:
                break
    finally:
        process.send_signal(signal.SIGTERM)
        _, remarks = process.communicate(timeout=30)

    assert process.returncode == 0
    assert "device   cpu" in text
    assert "pool     default" in text
    assert str(forebay_home / "api-token") in text
    assert "http://127.0.0.1:" in text
    assert (forebay_home / "api-token").read_text().strip() not in text
    assert "running work goes on" in remarks


def test_a_service_that_others_can_reach_says_so(forebay_home: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [FOREBAY, "up", "--host", "0.0.0.0", "--port", "0", "--json"],
            stdout=subprocess.PIPE,
            stderr=file,
        )
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)

    assert "can be reached from elsewhere" in log.read_text()


def test_an_idle_service_takes_little_of_a_core(service: LiveService) -> None:
    def spent_s() -> float:
        fields = Path(f"/proc/{service.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    wait_until(lambda: not service.get("/v1/leases")["leases"])
    before, began = spent_s(), time.monotonic()
    wait_until(lambda: time.monotonic() - began > 3)

    # Four times of what was measured, since other work shares the machine.
    assert (spent_s() - before) / (time.monotonic() - began) < 0.25
