"""The ledger: nodes, devices, pools, jobs, leases, draws, events, and the triggers that guard them.

The triggers are written for SQLite.
They keep what is lent (``used_*``), refuse what would lend more than there is,
and make draws and events append-only.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create tables and triggers."""
    op.create_table(
        "node",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("labels", sa.JSON, nullable=False),
    )
    op.create_table(
        "device",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("node_id", sa.String, sa.ForeignKey("node.id"), nullable=False, index=True),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("adapter", sa.String, nullable=False),
        sa.Column("present", sa.Boolean, nullable=False),
        sa.Column("capacity_millis", sa.Integer, nullable=False),
        sa.Column("memory_bytes", sa.Integer, nullable=False),
        sa.Column("used_millis", sa.Integer, nullable=False, server_default="0"),
        sa.Column("used_memory_bytes", sa.Integer, nullable=False, server_default="0"),
        sa.Column("document", sa.JSON, nullable=False),
        sa.CheckConstraint("capacity_millis >= 0"),
        sa.CheckConstraint("memory_bytes >= 0"),
        sa.CheckConstraint("used_millis >= 0"),
        sa.CheckConstraint("used_memory_bytes >= 0"),
    )
    op.create_table(
        "pool",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("kind", sa.String, primary_key=True),
        sa.Column("quota_millis", sa.Integer),
        sa.Column("used_millis", sa.Integer, nullable=False, server_default="0"),
        sa.CheckConstraint("used_millis >= 0"),
    )
    op.create_table(
        "job",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("state", sa.String, nullable=False, index=True),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("pool", sa.String, nullable=False),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("cancelling", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("submitted_s", sa.Float, nullable=False),
        sa.Column("started_s", sa.Float),
        sa.Column("ended_s", sa.Float),
        sa.Column("exit_status", sa.Integer),
        sa.Column("reason", sa.String, nullable=False, server_default=""),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "lease",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("job_id", sa.Integer, sa.ForeignKey("job.id"), nullable=False),
        sa.Column("pool", sa.String, nullable=False),
        sa.Column("node_id", sa.String, sa.ForeignKey("node.id"), nullable=False),
        sa.Column("engine", sa.String, nullable=False),
        sa.Column("owner", sa.String, nullable=False),
        sa.Column("policy", sa.String, nullable=False),
        sa.Column("terms", sa.JSON, nullable=False),
        sa.Column("created_s", sa.Float, nullable=False),
        sa.Column("expires_s", sa.Float),
        sa.Column("ended_s", sa.Float),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "lease_in_force",
        "lease",
        ["job_id"],
        unique=True,
        sqlite_where=sa.text("ended_s IS NULL"),
        postgresql_where=sa.text("ended_s IS NULL"),
    )
    op.create_table(
        "draw",
        sa.Column("lease_id", sa.Integer, sa.ForeignKey("lease.id"), primary_key=True),
        sa.Column("device_id", sa.String, sa.ForeignKey("device.id"), primary_key=True),
        sa.Column("millis", sa.Integer, nullable=False),
        sa.Column("memory_bytes", sa.Integer, nullable=False),
        sa.CheckConstraint("millis >= 0"),
        sa.CheckConstraint("memory_bytes >= 0"),
        sa.CheckConstraint("millis + memory_bytes > 0"),
    )
    op.create_table(
        "event",
        sa.Column("sequence", sa.Integer, primary_key=True),
        sa.Column("time_s", sa.Float, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("subject", sa.String, nullable=False),
        sa.Column("facts", sa.JSON, nullable=False),
    )
    op.create_table(
        "cursor",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("sequence", sa.Integer, nullable=False),
    )
    for statement in _TRIGGERS:
        op.execute(statement)


_TRIGGERS = (
    """
    CREATE TRIGGER draw_fits BEFORE INSERT ON draw BEGIN
        SELECT RAISE(ABORT, 'forebay: the lease has ended')
        WHERE (SELECT ended_s FROM lease WHERE id = NEW.lease_id) IS NOT NULL;
        SELECT RAISE(ABORT, 'forebay: device is gone')
        WHERE NOT (SELECT present FROM device WHERE id = NEW.device_id);
        SELECT RAISE(ABORT, 'forebay: device would be over-allocated')
        WHERE EXISTS (
            SELECT 1 FROM device WHERE id = NEW.device_id
            AND (used_millis + NEW.millis > capacity_millis
                 OR used_memory_bytes + NEW.memory_bytes > memory_bytes)
        );
        SELECT RAISE(ABORT, 'forebay: pool would be over its quota')
        WHERE EXISTS (
            SELECT 1 FROM pool
            WHERE name = (SELECT pool FROM lease WHERE id = NEW.lease_id)
            AND kind = (SELECT kind FROM device WHERE id = NEW.device_id)
            AND used_millis + NEW.millis > quota_millis
        );
    END
    """,
    """
    CREATE TRIGGER draw_taken AFTER INSERT ON draw BEGIN
        UPDATE device SET used_millis = used_millis + NEW.millis,
            used_memory_bytes = used_memory_bytes + NEW.memory_bytes
        WHERE id = NEW.device_id;
        UPDATE pool SET used_millis = used_millis + NEW.millis
        WHERE name = (SELECT pool FROM lease WHERE id = NEW.lease_id)
        AND kind = (SELECT kind FROM device WHERE id = NEW.device_id);
    END
    """,
    """
    CREATE TRIGGER lease_returned AFTER UPDATE OF ended_s ON lease
    WHEN OLD.ended_s IS NULL AND NEW.ended_s IS NOT NULL BEGIN
        UPDATE device SET
            used_millis = used_millis - (
                SELECT millis FROM draw WHERE lease_id = NEW.id AND device_id = device.id),
            used_memory_bytes = used_memory_bytes - (
                SELECT memory_bytes FROM draw WHERE lease_id = NEW.id AND device_id = device.id)
        WHERE id IN (SELECT device_id FROM draw WHERE lease_id = NEW.id);
        UPDATE pool SET used_millis = used_millis - (
            SELECT COALESCE(SUM(draw.millis), 0) FROM draw JOIN device ON device.id = draw.device_id
            WHERE draw.lease_id = NEW.id AND device.kind = pool.kind)
        WHERE name = NEW.pool;
    END
    """,
    """
    CREATE TRIGGER lease_stays_ended BEFORE UPDATE OF ended_s ON lease
    WHEN OLD.ended_s IS NOT NULL BEGIN
        SELECT RAISE(ABORT, 'forebay: the lease has ended');
    END
    """,
    """
    CREATE TRIGGER lease_keeps_pool BEFORE UPDATE OF pool ON lease BEGIN
        SELECT RAISE(ABORT, 'forebay: a lease stays in its pool');
    END
    """,
    """
    CREATE TRIGGER device_keeps_kind BEFORE UPDATE OF kind ON device
    WHEN OLD.kind <> NEW.kind AND OLD.used_millis > 0 BEGIN
        SELECT RAISE(ABORT, 'forebay: the device is in use');
    END
    """,
    *(
        f"""
        CREATE TRIGGER {table}_keeps_{verb.lower()} BEFORE {verb} ON {table} BEGIN
            SELECT RAISE(ABORT, 'forebay: rows of {table} are only ever added');
        END
        """
        for table in ("draw", "event")
        for verb in ("UPDATE", "DELETE")
    ),
    """
    CREATE TRIGGER lease_keeps_row BEFORE DELETE ON lease BEGIN
        SELECT RAISE(ABORT, 'forebay: rows of lease are only ever added');
    END
    """,
)
