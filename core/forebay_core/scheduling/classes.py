"""Distinct requests, numbered: what is alike is judged, scored and kept once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from forebay import FORM_COUNT, KIND_ORDER, FleetArrays, Request, RequestBatch
from forebay.drawing import CPU, WHOLE, ClassArrays
from forebay_core.scheduling.arrays import build_batch

Judge = Callable[[RequestBatch], NDArray[np.bool_]]
"""Returns the units that every filter lets through: (R, U) bool."""


class RequestClasses:
    """Numbers distinct requests, and keeps them as arrays that grow.

    Parameters
    ----------
    fleet : FleetArrays
    judge : callable
        Asked once for each distinct request.
    """

    def __init__(self, fleet: FleetArrays, judge: Judge) -> None:
        self._fleet = fleet
        self._judge = judge
        self._number: dict[Request, int] = {}
        self._masks: dict[bytes, int] = {}
        self._groups: dict[str, int] = {}
        self.requests: list[Request] = []
        units = len(fleet.unit_kind)
        kinds = len(KIND_ORDER)
        self.arrays = ClassArrays(
            millis=np.zeros((0, kinds), np.int64),
            memory_bytes=np.zeros((0, kinds), np.int64),
            wanted=np.zeros((0, kinds), np.bool_),
            linked=np.zeros((0, kinds), np.bool_),
            mask=np.zeros(0, np.int32),
            candidates=np.zeros((0, units), np.bool_),
            kind=np.zeros(0, np.int64),
            form=np.zeros(0, np.int64),
            spread_group=np.zeros(0, np.int64),
            spread_max=np.zeros(0, np.int64),
        )
        self.quota_slack = np.zeros((0, kinds), np.int64)
        self.draws = np.zeros(0, np.int64)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.requests)

    @property
    def draws_max(self) -> int:
        """Most draws that any of the requests needs."""
        return int(self.draws.max(initial=1))

    @property
    def groups(self) -> dict[str, int]:
        """Index along ``A`` of each group that keeps apart."""
        return self._groups

    def number(self, requests: Sequence[Request]) -> NDArray[np.int32]:
        """Return the number of each request, after adding those that are new.

        O(requests), and O(units) for each distinct request that is new.
        """
        fresh = [request for request in dict.fromkeys(requests) if request not in self._number]
        if fresh:
            self._add(fresh)
        return np.fromiter((self._number[request] for request in requests), np.int32)

    def _add(self, fresh: Sequence[Request]) -> None:
        batch = build_batch(fresh)
        candidates = self._judge(batch)
        masks = np.zeros(len(fresh), np.int32)
        added: list[NDArray[np.bool_]] = []
        for index, row in enumerate(candidates):
            masks[index] = self._mask(row)
            if masks[index] == len(self.arrays.candidates) + len(added):
                added.append(row)
        for request in fresh:
            self._number[request] = len(self.requests)
            self.requests.append(request)
            if request.spread_group:
                self._groups.setdefault(request.spread_group, len(self._groups))
        old = self.arrays
        kind = _first_kind(batch)
        self.arrays = ClassArrays(
            millis=np.concatenate([old.millis, batch.millis]),
            memory_bytes=np.concatenate([old.memory_bytes, batch.memory_bytes]),
            wanted=np.concatenate([old.wanted, batch.wanted]),
            linked=np.concatenate([old.linked, batch.linked]),
            mask=np.concatenate([old.mask, masks]),
            candidates=np.concatenate([old.candidates, np.array(added, np.bool_)])
            if added
            else old.candidates,
            kind=np.concatenate([old.kind, kind]),
            form=np.concatenate([old.form, _forms(batch, kind)]),
            spread_group=np.concatenate(
                [
                    old.spread_group,
                    np.array([self._groups.get(one.spread_group, -1) for one in fresh], np.int64),
                ]
            ),
            spread_max=np.concatenate(
                [old.spread_max, np.array([one.spread_max for one in fresh], np.int64)]
            ),
        )
        slack, draws = self._limits(batch)
        self.quota_slack = np.concatenate([self.quota_slack, slack])
        self.draws = np.concatenate([self.draws, draws])

    def _mask(self, row: NDArray[np.bool_]) -> int:
        return self._masks.setdefault(np.packbits(row).tobytes(), len(self._masks))

    def _limits(self, batch: RequestBatch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the most that each kind can come to, and how many draws a request needs."""
        slack = batch.millis.copy()
        steps = np.ones(len(KIND_ORDER), np.int64)
        np.maximum.at(steps, self._fleet.unit_kind, self._fleet.unit_step_millis)
        draws = np.ones(len(batch.requests), np.int64)
        units = np.diff(self._fleet.first_unit)
        most_cpus = int(
            np.bincount(
                np.repeat(np.arange(len(units)), units)[
                    self._fleet.unit_kind[self._fleet.node_units] == CPU
                ],
                minlength=1,
            ).max()
        )
        for row in range(len(batch.requests)):
            needed = 0
            for kind in np.flatnonzero(batch.wanted[row]):
                if kind == CPU:
                    slack[row, kind] += steps[kind] - 1
                    needed += most_cpus
                elif not batch.linked[row, kind]:
                    count = max(int(batch.millis[row, kind]) // WHOLE, 1)
                    slack[row, kind] += (steps[kind] - 1) * count
                    needed += count
                else:
                    needed += 1
            draws[row] = max(needed, 1)
        return slack, draws


def _first_kind(batch: RequestBatch) -> NDArray[np.int64]:
    wanted = batch.wanted.copy()
    wanted[:, CPU] = False
    return np.where(wanted.any(axis=1), wanted.argmax(axis=1), -1).astype(np.int64)


def _forms(batch: RequestBatch, kind: NDArray[np.int64]) -> NDArray[np.int64]:
    millis = batch.millis[np.arange(len(kind)), kind]
    form = np.where(millis < WHOLE, 1, 1 + millis // WHOLE)
    return np.where(kind < 0, 0, np.minimum(form, FORM_COUNT - 1)).astype(np.int64)
