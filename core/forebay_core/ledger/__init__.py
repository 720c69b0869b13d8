"""The ledger: what there is, what is lent, to whom, and everything that led there."""

from __future__ import annotations

from forebay_core.ledger.ledger import Ledger
from forebay_core.ledger.reading import ActiveLease, LedgerReader, RecordedLease
from forebay_core.ledger.replay import LedgerState, replay

__all__ = ["ActiveLease", "Ledger", "LedgerReader", "LedgerState", "RecordedLease", "replay"]
