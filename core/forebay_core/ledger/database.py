"""Opens the ledger's database and brings it to the present form."""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.exc import DatabaseError, OperationalError
from sqlmodel import Session

from forebay import ForebayError, StateError

HEAD = "0001"
"""Newest migration; equal to the last revision in ``migrations/versions``."""

BUSY_TIMEOUT_MS = 30_000
"""How long a writer waits for another before it gives up."""


def open_database(path: Path, *, max_page_count: int | None = None) -> Engine:
    """Open the ledger, creating or migrating it if needed.

    SQLite in WAL mode with ``synchronous=FULL``: what was committed survives ``kill -9``
    and power loss.

    Parameters
    ----------
    path : Path
    max_page_count : int, optional
        Let the file grow to so many pages only, as on a small disk.

    Raises
    ------
    ForebayError
        The file cannot be opened, is not a ledger, or was written by a newer Forebay.
    """
    try:
        # Jobs carry what nobody else may read, such as passwords in their environment.
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        engine = create_engine(f"sqlite:///{path}", connect_args={"check_same_thread": False})
        event.listen(engine, "connect", partial(_configure, max_page_count))
        event.listen(engine, "begin", _begin)
        if _revision(engine) != HEAD:
            _migrate(engine, path)
    except (OSError, DatabaseError) as error:
        cause = getattr(error, "orig", None) or error
        raise ForebayError(
            f"the ledger {path} cannot be opened: {cause}.",
            fix="Check the path and its permissions, or set FOREBAY_HOME to another directory.",
        ) from error
    return engine


@contextmanager
def transaction(engine: Engine, *, write: bool) -> Iterator[Session]:
    """Run a block as one transaction: committed whole, or not at all.

    A writer takes the write lock at once, so that what it reads is still true when it writes.

    Raises
    ------
    StateError
        The database stayed locked, or the disk is full; nothing was changed.
    """
    try:
        with (
            engine.connect().execution_options(forebay_write=write) as connection,
            connection.begin(),
            Session(connection) as session,
        ):
            yield session
            session.flush()
    except OperationalError as error:
        raise StateError(
            f"the ledger could not be {'written' if write else 'read'}: {error.orig}.",
            fix="Nothing was changed; free disk space or end the program that holds the lock.",
        ) from error


def _configure(max_page_count: int | None, connection: sqlite3.Connection, _record: object) -> None:
    # Transactions are begun by _begin; the driver must not begin its own.
    connection.isolation_level = None
    for pragma in (
        f"busy_timeout={BUSY_TIMEOUT_MS}",
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
    ):
        connection.execute(f"PRAGMA {pragma}")
    if max_page_count is not None:
        connection.execute(f"PRAGMA max_page_count={max_page_count}")


def _begin(connection: Connection) -> None:
    write = connection.get_execution_options().get("forebay_write", True)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _revision(engine: Engine) -> str | None:
    """Return the revision that the database is at, None when it is empty."""
    with transaction(engine, write=False) as session:
        connection = session.connection()
        if not inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _migrate(engine: Engine, path: Path) -> None:
    # Alembic takes a tenth of a second to import; most starts need no migration.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", "forebay_core.ledger:migrations")
    # SQLite cannot lock a schema that does not exist yet, so a file does.
    with path.with_suffix(".migrate.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with transaction(engine, write=True) as session:
            connection = session.connection()
            config.attributes["connection"] = connection
            try:
                command.upgrade(config, "head")
            except CommandError as error:
                raise ForebayError(
                    f"the ledger {path} is of revision {_stamp(connection)}, "
                    f"this Forebay knows up to {HEAD}.",
                    fix="Upgrade Forebay, or set FOREBAY_HOME to another directory.",
                ) from error


def _stamp(connection: Connection) -> Any:  # noqa: ANN401 - whatever the column holds
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
