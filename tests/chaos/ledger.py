"""Two tables in which handlers leave traces: every start of a job, and at most one effect for each."""

import os
from collections import Counter
from typing import Any

from django.db import connection

_TABLES = """
CREATE TABLE chaos_start (id bigserial PRIMARY KEY, job_id text NOT NULL, pid integer NOT NULL);
CREATE TABLE chaos_effect (job_id text PRIMARY KEY, value text NOT NULL);
CREATE TABLE chaos_order (id bigserial PRIMARY KEY);
CREATE TABLE chaos_signal (id bigserial PRIMARY KEY, job_id text NOT NULL, signal text NOT NULL);
"""
_REPEATED = """
SELECT job_id, pid FROM chaos_start AS earlier
WHERE EXISTS (SELECT FROM chaos_start AS later WHERE later.job_id = earlier.job_id AND later.id > earlier.id)
"""

_SLEEP = "SELECT pg_sleep(%"


def create() -> None:
    """Make the tables; they go with the database of the test run."""
    with connection.cursor() as cursor:
        cursor.execute(_TABLES)


def note_start(job_id: str) -> int:
    """Note that this process starts a job, and return which start of it that is."""
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO chaos_start (job_id, pid) VALUES (%s, %s)", [job_id, os.getpid()])
    return starts(job_id)


def note_effect(job_id: str, value: str = "") -> None:
    """Do the work of a job, unless it has been done."""
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO chaos_effect VALUES (%s, %s) ON CONFLICT DO NOTHING", [job_id, value])


def starts(job_id: str) -> int:
    """Return how often a job has started."""
    return len(pids(job_id))


def pids(job_id: str) -> list[int]:
    """Return which processes have started a job, in order."""
    return _column("SELECT pid FROM chaos_start WHERE job_id = %s ORDER BY id", job_id)


def all_starts() -> Counter[str]:
    """Return how often each job has started."""
    return Counter(_column("SELECT job_id FROM chaos_start"))


def all_pids() -> Counter[int]:
    """Return how many starts each process has made."""
    return Counter(_column("SELECT pid FROM chaos_start"))


def started_by(pid: int) -> int:
    """Return how many jobs a process has started."""
    return len(_column("SELECT DISTINCT job_id FROM chaos_start WHERE pid = %s", pid))


def unfinished(pid: int) -> set[str]:
    """Return the jobs that a process has started and that have no effect yet."""
    return set(_column("SELECT job_id FROM chaos_start WHERE pid = %s EXCEPT SELECT job_id FROM chaos_effect", pid))


def repeated() -> set[tuple[str, int]]:
    """Return the jobs that have started more than once, each with the process of every start but the last."""
    with connection.cursor() as cursor:
        cursor.execute(_REPEATED)
        return set(cursor.fetchall())


def order_of_starts() -> list[str]:
    """Return the jobs in the order of their starts."""
    return _column("SELECT job_id FROM chaos_start ORDER BY id")


def effect(job_id: str) -> str | None:
    """Return what a job has done, or None if it has not."""
    found = _column("SELECT value FROM chaos_effect WHERE job_id = %s", job_id)
    return str(found[0]) if found else None


def effects(job_ids: list[str]) -> int:
    """Return how many of some jobs have done their work."""
    return len(_column("SELECT job_id FROM chaos_effect WHERE job_id = ANY(%s)", job_ids))


def effects_of(value: str) -> list[str]:
    """Return the jobs that have left a value."""
    return _column("SELECT job_id FROM chaos_effect WHERE value = %s ORDER BY job_id", value)


def sleeping_sessions() -> list[int]:
    """Return the processes of the database that sleep in a query of a handler."""
    return _column("SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE %s", _SLEEP)


def add_order() -> int:
    """Create a row for a job to look for."""
    [number] = _column("INSERT INTO chaos_order DEFAULT VALUES RETURNING id")
    return int(number)


def has_order(number: int) -> bool:
    """Return whether such a row can be seen from here."""
    return bool(_column("SELECT id FROM chaos_order WHERE id = %s", number))


def note_signal(job_id: str, signal: str) -> None:
    """Note that somebody was told something of a job."""
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO chaos_signal (job_id, signal) VALUES (%s, %s)", [job_id, signal])


def signals(job_id: str) -> list[str]:
    """Return what was told of a job, in order."""
    return _column("SELECT signal FROM chaos_signal WHERE job_id = %s ORDER BY id", job_id)


def forget() -> None:
    """Empty the tables."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE chaos_start, chaos_effect, chaos_order, chaos_signal")


def _column(query: str, *values: object) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return [row[0] for row in cursor.fetchall()]
