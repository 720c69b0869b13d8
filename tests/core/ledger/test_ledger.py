"""The database itself refuses what would break the books, and survives what kills a process."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from forebay import (
    Device,
    DeviceId,
    DeviceKind,
    Draw,
    ForebayError,
    JobId,
    JobSpec,
    JobState,
    Node,
    NodeId,
    NotFoundError,
    Placement,
    Pool,
    Request,
    ResourceItem,
    StateError,
)
from forebay_core.ledger import Ledger, replay

NODE = Node(NodeId("n1"), {"hostname": "n1"})
CPU = Device(DeviceId("cpu0"), DeviceKind.CPU, node=NODE.id, capacity_millis=2000)
SPEC = JobSpec(("true",), Request((ResourceItem(DeviceKind.CPU, 1000),)))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    opened = Ledger(tmp_path / "ledger.db")
    opened.sync_devices([NODE], [CPU], {CPU.id: "cpu"})
    opened.sync_pools([Pool("default", "shares")])
    return opened


def placement(ledger: Ledger, millis: int = 1000) -> Placement:
    return Placement(ledger.submit(SPEC).id, "default", NODE.id, (Draw(CPU.id, millis),))


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO draw VALUES (2, 'cpu0', 2000, 0)",
        "INSERT INTO draw VALUES (1, 'cpu0', 500, 0)",
        "UPDATE draw SET millis = 1",
        "DELETE FROM draw",
        "DELETE FROM lease WHERE id = 2",
        "UPDATE event SET kind = 'job_ended'",
        "DELETE FROM event",
        "UPDATE lease SET ended_s = NULL WHERE id = 1",
        "UPDATE lease SET pool = 'other'",
        "UPDATE device SET used_millis = -1",
        (
            "INSERT INTO lease (job_id, pool, node_id, engine, owner, policy, terms, created_s) "
            "SELECT job_id, pool, node_id, engine, owner, policy, terms, 0 FROM lease WHERE id = 2"
        ),
    ],
)
def test_the_database_refuses_what_no_code_of_ours_does(
    ledger: Ledger, tmp_path: Path, statement: str
) -> None:
    leases = ledger.place([placement(ledger), placement(ledger)], engine="local", owner="1@0")
    assert leases[0] is not None
    ledger.end(leases[0].id, JobState.COMPLETED)
    connection = sqlite3.connect(tmp_path / "ledger.db")
    try:
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(statement)
    finally:
        connection.close()


def test_two_schedulers_never_lend_the_same_core(ledger: Ledger, tmp_path: Path) -> None:
    placements = [placement(ledger) for _ in range(20)]
    taken: list[int] = []

    def schedule() -> None:
        other = Ledger(tmp_path / "ledger.db")
        for wanted in placements:
            (lease,) = other.place([wanted], engine="local", owner="1@0")
            if lease is not None:
                taken.append(lease.id)
        other.close()

    threads = [threading.Thread(target=schedule) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 2
    assert ledger.usage()[CPU.id] == (2000, 0)
    assert replay(ledger.events()) == ledger.state()


WRITER = """
import sys
from pathlib import Path
from forebay import *
from forebay_core.ledger import Ledger
ledger = Ledger(Path(sys.argv[1]))
spec = JobSpec(("true",), Request((ResourceItem(DeviceKind.CPU, 1000),)))
print("ready", flush=True)
while True:
    job = ledger.submit(spec)
    draw = Draw(DeviceId("cpu0"), 1000)
    (lease,) = ledger.place(
        [Placement(job.id, "default", NodeId("n1"), (draw,))], engine="local", owner="1@0"
    )
    if lease is not None:
        ledger.started(lease.id, 1.0)
        ledger.end(lease.id, JobState.COMPLETED)
"""


def test_killing_a_writer_leaves_a_ledger_that_agrees_with_its_events(
    ledger: Ledger, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.db"
    seen = 0
    for _ in range(5):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        while len(ledger.events()) < seen + 40:
            pass
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        seen = len(ledger.events())
        assert replay(ledger.events()) == ledger.state()
        for entry in ledger.active_leases():
            ledger.end(entry.lease.id, JobState.LOST)
    assert ledger.usage()[CPU.id] == (0, 0)


def test_a_full_disk_changes_nothing_and_says_so(ledger: Ledger, tmp_path: Path) -> None:
    before = ledger.state()
    connection = sqlite3.connect(tmp_path / "ledger.db")
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.close()
    limited = Ledger(tmp_path / "ledger.db", max_page_count=pages)
    big = JobSpec(("x" * 100_000,), SPEC.request)
    with pytest.raises(StateError, match="full"):
        limited.submit(big)
    limited.close()
    assert ledger.state() == before
    assert replay(ledger.events()) == before


def test_a_file_that_is_no_ledger_is_named_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(b"this is not a database, and long enough to be seen as none" * 50)
    with pytest.raises(ForebayError, match=r"ledger\.db cannot be opened"):
        Ledger(path)


def test_a_ledger_of_a_newer_forebay_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    ledger.close()
    connection = sqlite3.connect(tmp_path / "ledger.db")
    with connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(ForebayError, match="revision 9999") as caught:
        Ledger(tmp_path / "ledger.db")
    assert "Upgrade" in caught.value.fix


def test_the_migrations_give_what_the_tables_say(tmp_path: Path) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext
    from sqlmodel import SQLModel

    from forebay_core.ledger import database, tables

    assert tables.JobRow.__tablename__ == "job"
    engine = database.open_database(tmp_path / "ledger.db")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection)
        differences = compare_metadata(context, SQLModel.metadata)
    engine.dispose()
    assert differences == []


def test_an_unknown_job_is_named_with_what_to_do(ledger: Ledger) -> None:
    with pytest.raises(NotFoundError, match="no job 7") as caught:
        ledger.job(JobId(7))
    assert "forebay jobs" in caught.value.fix


def test_jobs_queue_by_priority_then_by_number(ledger: Ledger) -> None:
    from dataclasses import replace

    ids = [ledger.submit(replace(SPEC, priority=priority)).id for priority in (0, 5, 0, 5)]
    assert [job.id for job in ledger.queue()] == [ids[1], ids[3], ids[0], ids[2]]
