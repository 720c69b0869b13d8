"""Alembic's entry: runs migrations on the connection that the ledger hands over."""

from __future__ import annotations

from alembic import context
from sqlmodel import SQLModel

import forebay_core.ledger.tables  # noqa: F401 - fills SQLModel.metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=SQLModel.metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
