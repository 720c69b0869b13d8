"""The ledger: what there is, what is lent, to whom, and everything that led there."""

from __future__ import annotations

from forebay_core.ledger.ledger import ActiveLease, Ledger
from forebay_core.ledger.replay import LedgerState, replay

__all__ = ["ActiveLease", "Ledger", "LedgerState", "replay"]
