"""Judges a GPU's memory from its error counters.

NVML API reference: ``nvmlDeviceGetRemappedRows``, ``nvmlDeviceGetRetiredPagesPendingStatus``,
``nvmlDeviceGetTotalEccErrors``; NVIDIA's *GPU Memory Error Management* says what each asks for.
"""

from __future__ import annotations

from forebay import FactState, HealthCondition, HealthStatus
from forebay_builtin_plugins.nvidia.nvml import Facts

LOST = "nvidia:gpu_lost"
REMAP_FAILED = "nvidia:row_remap_failed"
REMAP_PENDING = "nvidia:row_remap_pending"
RETIREMENT_PENDING = "nvidia:page_retirement_pending"
ECC_UNCORRECTED = "nvidia:ecc_uncorrected"

MEANINGS = {
    LOST: "The GPU no longer answers on PCI: reset it or reboot, and look for its Xid.",
    REMAP_FAILED: "No spare row was left for a broken one: the GPU is to be replaced.",
    REMAP_PENDING: "A broken row is replaced by a spare one at the next reset of the GPU.",
    RETIREMENT_PENDING: "A broken page is taken out of use at the next reset of the GPU.",
    ECC_UNCORRECTED: "Memory errors that could not be corrected occurred since the driver loaded.",
}

_UNCORRECTED = 1
"""``NVML_MEMORY_ERROR_TYPE_UNCORRECTED``."""
_VOLATILE = 0
"""``NVML_VOLATILE_ECC``: since the driver was loaded."""


def judge(facts: Facts) -> tuple[HealthCondition, ...]:
    """Return what the counters say; empty where the GPU has none of them.

    Raises
    ------
    NVMLError
        The GPU is lost.
    """
    rows = facts.ask(None, "nvmlDeviceGetRemappedRows")
    pages = None
    if rows is None:
        # GPUs before Ampere retire pages instead.
        pages = facts.ask(None, "nvmlDeviceGetRetiredPagesPendingStatus")
    errors = facts.ask(None, "nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE)
    found = []
    if rows is not None:
        _, _, pending, failed = rows
        found.append(
            _condition("row_remap", HealthStatus.FAILED, REMAP_FAILED)
            if failed
            else _condition("row_remap", HealthStatus.DEGRADED, REMAP_PENDING if pending else "")
        )
    if pages is not None:
        found.append(
            _condition(
                "page_retirement", HealthStatus.DEGRADED, RETIREMENT_PENDING if pages else ""
            )
        )
    if errors is not None:
        found.append(_condition("ecc", HealthStatus.DEGRADED, ECC_UNCORRECTED if errors else ""))
    return tuple(found)


def judge_unreadable(state: FactState, words: str) -> HealthCondition:
    """Return the condition of a GPU that does not answer.

    Parameters
    ----------
    state : FactState
    words : str
        NVML's own.
    """
    if state is FactState.LOST:
        return HealthCondition("device", HealthStatus.FAILED, LOST, words)
    return HealthCondition("device", HealthStatus.UNKNOWN, "", words)


def _condition(type_: str, otherwise: HealthStatus, reason: str) -> HealthCondition:
    """Return a condition that is well where there is no reason."""
    status = otherwise if reason else HealthStatus.OK
    return HealthCondition(type_, status, reason, MEANINGS.get(reason, ""))
