"""A report of runs as one HTML file: figures, and plots as SVG inside it, nothing fetched."""

from __future__ import annotations

import io
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from forebay.errors import UnsupportedError
from forebay_sdk.simulate.summary import summarise
from forebay_sdk.simulator import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOUR_S = 3600.0

_STYLE = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
figure { margin: 2rem 0; background: #fff; border-radius: .5rem; padding: .5rem; }
svg { width: 100%; height: auto; }
figcaption { color: #333; padding: 0 .5rem .5rem; }
.wide { overflow-x: auto; }
"""


def write_report(path: Path, runs: Sequence[Run], title: str) -> None:
    """Write the report; runs of one trace on one fleet.

    Raises
    ------
    UnsupportedError
        Matplotlib is not installed.
    """
    figures = [
        (_lent, "Share of devices lent over time, all accelerators together."),
        (_waiting, "Jobs that wait over time."),
        (_waits, "Jobs by how long they waited: the share that waited no longer."),
        *((_heat(run), f"Share lent by band of nodes over time, {_label(run)}.") for run in runs),
    ]
    body = "".join(
        f"<figure>{_svg(draw(runs))}<figcaption>{escape(caption)}</figcaption></figure>"
        for draw, caption in figures
    )
    path.write_text(
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width'>"
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(title)}</h1><p>Simulated: the engine and the policies are those of a live "
        "host, time and nodes are not.</p>"
        f"<div class='wide'>{_table(runs)}</div>{body}</body></html>\n",
        encoding="utf-8",
    )


def _table(runs: Sequence[Run]) -> str:
    heads = ("policy", "queue", "jobs", "wait s", "p50", "p99", "slowdown", "killed", "event log")
    rows = []
    for run in runs:
        found = summarise(run)
        cells = (
            found.policy,
            found.queue,
            f"{found.jobs:,}",
            f"{found.wait_mean_s:,.0f}",
            f"{found.wait_p50_s:,.0f}",
            f"{found.wait_p99_s:,.0f}",
            f"{found.slowdown_mean:,.2f}",
            f"{found.killed:,}",
            found.digest[:12],
        )
        rows.append("".join(f"<td>{escape(cell)}</td>" for cell in cells))
    head = "".join(f"<th scope='col'>{name}</th>" for name in heads)
    lines = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def _label(run: Run) -> str:
    return f"{run.policy}, {run.queue}"


def _figure(height: float = 3.2) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UnsupportedError(
            "a report needs Matplotlib, which is not installed.",
            fix="Install it with: pip install 'forebay[bench]'",
        ) from error
    return Figure(figsize=(9.6, height), layout="constrained")


def _svg(figure: Figure) -> str:
    import matplotlib as mpl

    text = io.StringIO()
    # Ids are drawn by lot otherwise, and the date is told: equal runs give equal files.
    with mpl.rc_context({"svg.hashsalt": "forebay", "svg.fonttype": "none"}):
        figure.savefig(
            text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type"))
        )
    return text.getvalue()[text.getvalue().index("<svg") :]


def _lent(runs: Sequence[Run]) -> Figure:
    figure = _figure()
    axes = figure.subplots()
    for run in runs:
        capacity = run.capacity_millis[1:].sum() or run.capacity_millis.sum()
        kinds = slice(1, None) if run.capacity_millis[1:].sum() else slice(0, 1)
        free = run.samples.sample_free[:, kinds].sum(axis=1)
        axes.plot(_hours(run), 100 * (1 - free / capacity), label=_label(run))
    axes.set(xlabel="hours", ylabel="lent, %", ylim=(0, 101))
    axes.legend()
    return figure


def _waiting(runs: Sequence[Run]) -> Figure:
    figure = _figure()
    axes = figure.subplots()
    for run in runs:
        axes.plot(_hours(run), run.samples.sample_waiting, label=_label(run))
    axes.set(xlabel="hours", ylabel="jobs that wait")
    axes.legend()
    return figure


def _waits(runs: Sequence[Run]) -> Figure:
    figure = _figure()
    axes = figure.subplots()
    for run in runs:
        wait_s = np.sort((run.first_start_s - run.submit_s)[~np.isnan(run.first_start_s)])
        # A curve of a million steps shows no more than one of a thousand.
        at = np.unique(np.linspace(0, max(len(wait_s) - 1, 0), 1000).astype(int))
        if len(wait_s):
            axes.plot(np.maximum(wait_s[at], 1.0), 100 * (at + 1) / len(wait_s), label=_label(run))
    axes.set(xlabel="wait, s (1 s and less at the left)", ylabel="jobs, %", xscale="log")
    axes.legend()
    return figure


def _heat(run: Run):  # type: ignore[no-untyped-def]  # noqa: ANN202 - a drawing function
    def draw(_: Sequence[Run]) -> Figure:
        figure = _figure(3.6)
        axes = figure.subplots()
        hours = _hours(run)
        shown = axes.imshow(
            100 * run.samples.sample_nodes.T,
            aspect="auto",
            origin="lower",
            extent=(0.0, float(hours[-1]) if len(hours) else 1.0, 0.0, 100.0),
            cmap="viridis",
            vmin=0,
            vmax=100,
            interpolation="nearest",
        )
        axes.set(xlabel="hours", ylabel="nodes in order, %")
        figure.colorbar(shown, label="lent, %")
        return figure

    return draw


def _hours(run: Run) -> np.ndarray:
    return run.samples.sample_s / HOUR_S
