"""``forebay simulate`` as people run it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from forebay_core.cli import run

SMALL = ["simulate", "--nodes", "20", "--jobs", "200", "--load", "1.2", "--seed", "3"]


def test_pairs_of_policies_are_compared_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / name for name in ("report.html", "jobs.parquet", "events.jsonl")]
    report, jobs, events = files
    asked = [*SMALL, "--policy", "best-fit", "--policy", "fgd", "--queue", "easy", "--mtbf", "5"]
    written = ["--report", str(report), "--parquet", str(jobs), "--events", str(events)]
    assert run([*asked, *written, "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [one["policy"] for one in runs] == ["best-fit", "fgd"]
    assert all(one["ended"] == 200 for one in runs)
    assert runs[0]["killed"] > 0
    assert pq.read_table(jobs).num_rows == 400
    lines = events.read_text().splitlines()
    assert {json.loads(line).get("kind") for line in lines} >= {"submitted", "ended", "node_down"}
    page = report.read_text()
    assert page.count("<svg") == 5
    # Names of XML's vocabularies are no addresses to fetch from.
    assert "http" not in page.replace("http://www.w3.org/", ""), "nothing is fetched"
    before = events.read_bytes()
    assert run([*asked, *written]) == 0
    assert "(simulated)" in capsys.readouterr().out
    assert events.read_bytes() == before
    assert report.read_text() == page


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--format", "nope"], 2, "expected dlrm, openb, philly, swf, synthetic"),
        (["--format", "swf"], 2, "found no file"),
        (["--policy", "nope"], 3, "no enabled plugin offers the score policy 'nope'"),
        (["--queue", "nope"], 3, "no enabled plugin offers the queue policy 'nope'"),
    ],
)
def test_mistakes_are_told_without_a_traceback(
    arguments: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*SMALL, *arguments]) == status
    assert said in capsys.readouterr().err


def test_bad_rows_are_told_and_the_rest_is_simulated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(
        "timestamp,duration,num_gpus\n2017-10-09 07:01:55,66.0,1\n2017-10-09 07:01:56,-3,1\n"
    )
    assert run(["simulate", str(path), "--format", "philly", "--nodes", "2", "--json"]) == 0
    captured = capsys.readouterr()
    assert "jobs.csv:3: duration: found -3" in captured.err
    assert json.loads(captured.out)["runs"][0]["ended"] == 1
