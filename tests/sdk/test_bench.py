"""The benchmarks run and say what they measured; how fast it was is theirs to tell."""

from __future__ import annotations

import json
import os

import pytest

from forebay_core.cli import run


def test_start_up_is_told_as_a_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "startup", "--rounds", "1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    ratios = {entry["subject"]: entry["ratio"] for entry in document["startups"]}
    assert ratios[document["baseline"]] == 1
    assert {"import forebay", "forebay --help", "forebay plugins list"} <= set(ratios)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two processes need two cores")
def test_what_accelerators_gain_is_told_as_evidence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "tuning", "--rounds", "1", "--json"]) == 0
    for evidence in json.loads(capsys.readouterr().out):
        assert evidence["what"] == "process_duration"
        assert evidence["value"] > 0
        assert evidence["baseline"] > 0
        assert evidence["gain"] == pytest.approx(evidence["baseline"] / evidence["value"])
        assert evidence["machine"]
        assert not evidence["simulated"]
