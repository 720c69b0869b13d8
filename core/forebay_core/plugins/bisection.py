"""Finds which plugins make a command fail.

Delta debugging: Zeller, Hildebrandt, *Simplifying and Isolating Failure-Inducing Input*,
IEEE Trans. Softw. Eng. 28(2), 2002, algorithm *ddmin*.
It finds culprits that fail only together, too.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bisection:
    """What a bisection found.

    Parameters
    ----------
    culprits : tuple of str
        A least set of plugins with which the command fails; empty when no plugin is to blame.
    runs : int
        How often the command was run.
    verdict : str
        One sentence.
    """

    culprits: tuple[str, ...]
    runs: int
    verdict: str


def find_culprits(
    command: Sequence[str], plugins: Sequence[str], *, tell: Callable[[str], None]
) -> Bisection:
    """Run a command with fewer and fewer plugins enabled.

    Parameters
    ----------
    command : sequence of str
        Fails (exit status other than 0) while the culprits are enabled.
    plugins : sequence of str
        Ids of those that may be to blame.
    tell : callable
        Told of each run.
    """
    runs = 0

    def fails(enabled: Sequence[str]) -> bool:
        nonlocal runs
        runs += 1
        failed = _fails(command, [plugin for plugin in plugins if plugin not in enabled])
        tell(f"run {runs}: {'fails' if failed else 'passes'} with {', '.join(enabled) or 'none'}")
        return failed

    if not fails(plugins):
        return Bisection((), runs, "The command passes with all plugins enabled.")
    if fails(()):
        return Bisection((), runs, "The command fails with no plugin enabled: none is to blame.")
    culprits = minimise(list(plugins), fails)
    together = " together" if len(culprits) > 1 else ""
    return Bisection(
        tuple(culprits), runs, f"The command fails because of{together}: {', '.join(culprits)}."
    )


def minimise(failing: list[str], fails: Callable[[Sequence[str]], bool]) -> list[str]:
    """Return a least part of a failing set that still fails, by ddmin.

    Quadratic in the size of the set at worst, logarithmic where one element is to blame.
    """
    parts = 2
    while len(failing) >= 2:
        size = -(-len(failing) // parts)
        subsets = [failing[start : start + size] for start in range(0, len(failing), size)]
        for subset in subsets:
            rest = [plugin for plugin in failing if plugin not in subset]
            if fails(subset):
                failing, parts = subset, 2
                break
            if len(subsets) > 2 and fails(rest):
                failing, parts = rest, max(parts - 1, 2)
                break
        else:
            if parts >= len(failing):
                break
            parts = min(parts * 2, len(failing))
    return failing


def _fails(command: Sequence[str], disabled: Sequence[str]) -> bool:
    done = subprocess.run(
        command,
        env={**os.environ, "FOREBAY_DISABLE_PLUGINS": ",".join(disabled)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode != 0
