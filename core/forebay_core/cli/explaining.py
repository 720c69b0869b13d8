"""Prints why a job waits, or where and why there it ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forebay_core.cli.output import print_table
from forebay_core.requests import format_amount, format_request

if TYPE_CHECKING:
    from forebay import Job
    from forebay_core.runtime import Host
    from forebay_core.scheduling import Explanation


def print_explanation(job: Job, explanation: Explanation) -> None:
    """Print why a job waits, and what would let it run."""
    print(
        f"job {job.id} waits for {format_request(job.spec.request)} "
        f"from pool {explanation.pool}: {explanation.nodes_feasible} of {explanation.nodes} "
        f"node(s) can serve it now."
    )
    if explanation.nodes_feasible:
        print("It is about to be placed, or waits for a service: start one with 'forebay up'.")
        return
    if not explanation.devices:
        print("The pool has no device of the kinds asked for.")
    print_table(
        ["reason", "devices", "nodes"],
        [
            (
                reason.reason,
                f"{reason.devices} of {explanation.devices}",
                f"{reason.nodes} of {explanation.nodes}",
            )
            for reason in explanation.reasons
        ],
    )
    if explanation.never_fits:
        print(explanation.never_fits)
    for index, change in enumerate(explanation.changes):
        print(f"{'smallest change' if index == 0 else 'or'}: {change.text}")
    if not explanation.changes:
        print("No single change would let it run now.")


def print_placement(host: Host, job: Job) -> None:
    """Print where a job ran, by which policy and with which terms."""
    status = "" if job.exit_status is None else f" with exit status {job.exit_status}"
    print(f"job {job.id} {job.state}{status}{': ' if job.reason else ''}{job.reason}")
    for recorded in host.ledger.leases(job.id):
        lease = recorded.lease
        draws = ", ".join(
            f"{format_amount(draw.millis)} of {draw.device}"
            + (f" with {draw.memory_bytes} bytes" if draw.memory_bytes else "")
            for draw in lease.draws
        )
        state = "in force" if lease.ended_s is None else "ended"
        print(f"lease {lease.id} on node {lease.node}, {state}: {draws}")
        shown = ", ".join(f"{name} = {value:.3g}" for name, value in sorted(recorded.terms.items()))
        print(f"chosen by policy {recorded.policy}{': ' if shown else ''}{shown}")
