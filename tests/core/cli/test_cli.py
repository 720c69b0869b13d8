"""The command line: exit statuses, output for people and programs, and no traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from forebay import JobState
from forebay_core.cli import run
from forebay_core.ledger import Ledger, replay
from polling import wait_until

FOREBAY = (sys.executable, "-c", "from forebay_core.cli import main; main()")


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*FOREBAY, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*FOREBAY, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def ledger() -> Ledger:
    return Ledger(Path(os.environ["FOREBAY_HOME"]) / "ledger.db")


def asked_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:  # noqa: ANN401 - JSON
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


class TestExitStatus:
    @pytest.mark.parametrize(
        ("arguments", "status", "message"),
        [
            (["submit", "-r", "gpu=1.5", "--", "true"], 2, "whole devices. Write gpu=1 or gpu=2."),
            (["submit", "-r", "tpu=1", "--", "true"], 2, "unknown kind of device 'tpu'"),
            (["submit", "-r", "cpu", "--", "true"], 2, "expected KIND=AMOUNT"),
            (["submit", "-r", "cpu=0", "--", "true"], 2, "expected more than 0"),
            (["submit", "-r", "cpu=-1", "--", "true"], 2, "expected more than 0"),
            (["submit", "-r", "cpu=nan", "--", "true"], 2, "expected more than 0"),
            (["submit", "-r", "cpu=two", "--", "true"], 2, "expected a number"),
            (["submit", "-r", "cpu=1,cpu=2", "--", "true"], 2, "is given twice"),
            (["submit", "-r", "cpu=0.0001", "--", "true"], 2, "at most three decimals"),
            (["submit", "-r", "gpu.cores=1", "--", "true"], 2, "unknown field 'cores'"),
            (["submit", "-r", "memory=4G", "--", "true"], 2, "Write 4GB or 4GiB."),
            (["submit", "--device", "vendor", "--", "true"], 2, "NAME OPERATOR VALUE"),
            (["submit", "--device", "vendor>=x", "--", "true"], 2, "a whole number after >="),
            (["submit", "--env", "A", "--", "true"], 2, "expected NAME=VALUE"),
            (["submit", "--time-limit", "5", "--", "true"], 2, "a number without a unit"),
            (["submit", "--time-limit", "0s", "--", "true"], 2, "expected more than 0"),
            (["submit", "--directory", "/no/such", "--", "true"], 2, "is not a directory"),
            (["submit"], 2, "Missing argument"),
            (["frobnicate"], 2, "No such command"),
            (["jobs", "--frobnicate"], 2, "No such option"),
            (["--config", "/no/such.toml", "jobs"], 2, "cannot be read"),
            (["submit", "--pool", "other", "--", "true"], 3, "no pool 'other'"),
            (["explain", "99"], 3, "no job 99"),
            (["logs", "99"], 3, "no job 99"),
            (["cancel", "99"], 3, "no job 99"),
            (["devices", "zzz"], 3, "no device has an id that begins with 'zzz'"),
            (["plugins", "info", "zzz"], 3, "no plugin 'zzz'"),
            (["submit", "-r", "cpu=100000", "--", "true"], 4, "too much."),
            (["submit", "-r", "qpu=1", "--", "true"], 4, "has no qpu"),
            (["submit", "-r", "memory=9999TiB", "--", "true"], 4, "too much."),
            (["submit", "-r", "gpu=2", "--linked", "--", "true"], 4, "has no gpu"),
        ],
    )
    def test_each_mistake_has_its_status_and_one_clear_message(
        self,
        arguments: list[str],
        status: int,
        message: str,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        assert run(arguments) == status
        captured = capsys.readouterr()
        # The parser's own messages are wrapped in a frame.
        assert message in " ".join(captured.err.split())
        assert "Traceback" not in captured.err
        assert captured.out == ""

    def test_nothing_is_left_behind_by_a_refused_job(self) -> None:
        assert run(["submit", "-r", "cpu=100000", "--", "true"]) == 4
        opened = ledger()
        assert opened.jobs() == ()
        opened.close()

    @pytest.mark.parametrize(
        ("command", "status"),
        [
            (["true"], 0),
            (["sh", "-c", "exit 7"], 7),
            (["sh", "-c", "kill -KILL $$"], 137),
            (["no-such-program"], 127),
        ],
    )
    def test_run_returns_the_status_of_its_command(self, command: list[str], status: int) -> None:
        assert run(["run", "--", *command]) == status

    def test_run_returns_124_at_the_time_limit_and_125_where_it_cannot_run(self) -> None:
        assert run(["run", "--time-limit", "0.3s", "--", "sleep", "60"]) == 124
        assert run(["run", "-r", "gpu=1", "--", "true"]) == 125

    def test_a_faulty_configuration_names_file_line_and_field(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "site.toml"
        path.write_text('policy = "best-fit"\npolcy = 1\n')
        assert run(["--config", str(path), "jobs"]) == 2
        assert f"{path}:2: polcy: unknown field." in capsys.readouterr().err

    def test_a_pool_that_cannot_be_made_says_why(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "site.toml"
        path.write_text('[[pool]]\nname = "default"\nstrategy = "magic"\n')
        assert run(["--config", str(path), "submit", "--", "true"]) == 2
        assert "no enabled plugin offers the strategy 'magic'" in capsys.readouterr().err

    def test_an_unknown_policy_names_those_there_are(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "site.toml"
        path.write_text('policy = "magic"\n')
        assert run(["--config", str(path), "run", "--", "true"]) == 2
        assert "Offered: best-fit, " in capsys.readouterr().err


class TestOutput:
    def test_every_listing_is_json_for_programs(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["run", "--", "echo", "hi"]) == 0
        capsys.readouterr()
        assert asked_json(capsys, "devices")["devices"][0]["kind"] == "cpu"
        assert asked_json(capsys, "pools")["pools"][0]["pool"] == "default"
        (job,) = asked_json(capsys, "jobs")
        assert job["state"] == "completed"
        assert asked_json(capsys, "logs", "1") == {"job": 1, "stdout": "hi\n", "stderr": ""}
        assert asked_json(capsys, "explain", "1")["leases"][0]["policy"] == "best-fit"
        assert {entry["plugin"] for entry in asked_json(capsys, "plugins", "list")} >= {"cpu"}
        assert asked_json(capsys, "plugins", "info", "cpu")["manifest"]["id"] == "cpu"

    def test_run_as_json_holds_the_job_and_its_output(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["run", "--json", "--", "sh", "-c", "echo out; echo err >&2; exit 3"]) == 3
        document = json.loads(capsys.readouterr().out)
        assert document["job"]["exit_status"] == 3
        assert (document["stdout"], document["stderr"]) == ("out\n", "err\n")

    def test_both_streams_pass_through_byte_for_byte(self) -> None:
        done = subprocess.run(
            [*FOREBAY, "run", "--", "sh", "-c", r"printf 'a\377'; printf 'b\376' >&2"],
            capture_output=True,
            timeout=60,
            check=True,
        )
        assert (done.stdout, done.stderr) == (b"a\xff", b"b\xfe")

    def test_piped_output_is_plain_and_options_of_the_command_are_its_own(self) -> None:
        assert "\x1b" not in finish("devices").stdout
        assert finish("run", "--", "echo", "--json", "-v").stdout == "--json -v\n"

    def test_the_help_names_every_exit_status(self) -> None:
        text = " ".join(finish("--help").stdout.split())
        for part in ("2 wrong input", "4 more than exists", "124 when the time limit"):
            assert part in text

    def test_a_reader_that_stops_early_is_no_error(self) -> None:
        done = subprocess.run(
            ["bash", "-c", f"{' '.join(map(repr, FOREBAY))} descriptor schema | head -n 1"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert done.stdout == "{\n"
        assert done.stderr == ""


class TestExplaining:
    def test_a_waiting_job_tells_why_and_what_would_help(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["submit", "--node", "hostname==elsewhere", "--", "true"]) == 0
        capsys.readouterr()
        explanation = asked_json(capsys, "explain", "1")["explanation"]
        assert explanation["nodes_feasible"] == 0
        (reason,) = explanation["reasons"]
        assert (reason["reason"], reason["nodes"]) == ("node not selected", 1)
        assert explanation["changes"][0]["text"] == "drop the condition hostname==elsewhere"
        assert run(["explain", "1"]) == 0
        assert "smallest change: drop the condition" in capsys.readouterr().out


class TestLooking:
    def test_a_command_that_only_looks_changes_nothing_for_the_others(self) -> None:
        assert run(["run", "--", "true"]) == 0
        opened = ledger()
        before = opened.state()
        assert run(["--no-plugin", "cpu", "devices"]) == 0
        assert run(["--no-plugin", "cpu", "pools"]) == 0
        assert run(["--safe-mode", "devices"]) == 0
        assert opened.state() == before
        opened.close()


class TestCrashes:
    def test_what_a_killed_run_left_behind_is_settled_by_the_next_start(
        self, tmp_path: Path
    ) -> None:
        gate = tmp_path / "gate"
        command = f"while [ ! -e {gate} ]; do sleep 0.02; done; echo done"
        runner = start("run", "--", "sh", "-c", command)
        opened = ledger()
        wait_until(lambda: opened.jobs([JobState.RUNNING]))
        os.kill(runner.pid, signal.SIGKILL)
        runner.communicate()
        assert run(["jobs"]) == 0
        assert opened.job(opened.jobs()[0].id).state is JobState.RUNNING
        gate.touch()

        def ended() -> bool:
            run(["jobs"])
            return opened.jobs()[0].state.is_final

        wait_until(ended)
        assert opened.jobs()[0].state is JobState.COMPLETED
        assert opened.active_leases() == ()
        assert set(opened.usage().values()) == {(0, 0)}
        assert replay(opened.events()) == opened.state()
        opened.close()

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_an_interrupted_run_ends_its_job_and_all_it_started(
        self, number: signal.Signals, tmp_path: Path
    ) -> None:
        pid_file = tmp_path / "pid"
        runner = start("run", "--", "sh", "-c", f"setsid sleep 600 & echo $! > {pid_file}; wait")
        wait_until(lambda: pid_file.exists() and pid_file.read_text().strip())
        pid = int(pid_file.read_text())
        opened = ledger()
        wait_until(lambda: opened.jobs([JobState.RUNNING]))
        runner.send_signal(number)
        runner.communicate(timeout=30)
        assert opened.jobs()[0].state is JobState.CANCELLED
        assert opened.active_leases() == ()
        assert not psutil.pid_exists(pid)
        opened.close()

    def test_runs_side_by_side_share_the_pool(self) -> None:
        cores = len(os.sched_getaffinity(0))
        runners = [
            start("run", "-r", f"cpu={cores}", "--", "sh", "-c", "echo $FOREBAY_JOB_ID")
            for _ in range(4)
        ]
        printed = {runner.communicate(timeout=60)[0].strip() for runner in runners}
        assert printed == {"1", "2", "3", "4"}
        assert [runner.returncode for runner in runners] == [0, 0, 0, 0]
        opened = ledger()
        capacity = {device.id: device.capacity_millis for device in opened.devices()}
        events = opened.events()
        for end in range(1, len(events) + 1):
            for device, state in replay(events[:end]).devices.items():
                assert state.used_millis <= capacity[device]
        assert opened.active_leases() == ()
        opened.close()
