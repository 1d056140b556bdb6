"""Deaths that the database does not have yet, and the way back from death."""

from collections.abc import Sequence
from dataclasses import dataclass

from echomq_django.bus.jobs import MAX_BYTES, MAX_ROWS, Extras, pack_extras
from echomq_django.bus.keyspace import check_lane
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import Row, State, pack_max_stalled, parse
from echomq_django.bus.scripts import Script

_UNMIRRORED, _FORGET, _REQUEUE = Script("dead/unmirrored"), Script("dead/forget"), Script("dead/requeue")


@dataclass(frozen=True, slots=True)
class Dead:
    """A death to be mirrored: its time in server milliseconds, and the row or why it can't be read."""

    job_id: str
    died_at: int
    row: Row | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Revival:
    """All that is needed to give a job a new life, also when the server has lost everything.

    A new life has no expiry and no unique key: an operator wants it to run.
    """

    job_id: str
    death_key: str
    body: bytes
    lane: str
    priority: int
    max_stalled: int | None
    lease_ms: int
    attempts: int
    deaths: int
    enqueued_at: int
    extras: Extras | None = None
    via_outbox: bool = True


def unmirrored(queue: Queue, limit: int = MAX_ROWS) -> list[Dead]:
    """Return the oldest deaths that nobody has forgotten yet, at most `limit` and about 1 MiB of rows."""
    reply = queue.run(_UNMIRRORED, [queue.keys.dead], [queue.keys.base, min(limit, MAX_ROWS), MAX_BYTES])
    return [_death(reply[i].decode(), int(reply[i + 1]), reply[i + 2]) for i in range(0, len(reply), 3)]


def forget(queue: Queue, deaths: Sequence[tuple[str, str]]) -> list[bool]:
    """Drop deaths (id, death key) that the database has committed; False for one that is gone already."""
    keys = queue.keys
    forgotten: list[bool] = []
    for start in range(0, len(deaths), MAX_ROWS):
        part = deaths[start : start + MAX_ROWS]
        rows = [keys.job(job_id) for job_id, _ in part]
        forgotten += map(bool, queue.run(_FORGET, [keys.dead, *rows], [value for pair in part for value in pair]))
    return forgotten


def requeue(queue: Queue, revival: Revival) -> bool:
    """Give a dead job a new life with new budgets; False if it lives, is done, or died once more since."""
    keys = queue.keys
    names = [keys.pending, keys.lanes, keys.held, keys.limits, keys.dead, keys.meta, keys.wake, keys.events]
    args = [
        keys.base,
        revival.job_id,
        revival.death_key,
        check_lane(revival.lane),
        revival.priority + 100,
        pack_max_stalled(revival.max_stalled),
        revival.lease_ms,
        2 if revival.via_outbox else 0,
        revival.attempts,
        revival.deaths,
        revival.enqueued_at,
        pack_extras(revival.extras),
        revival.body,
    ]
    return bool(queue.run(_REQUEUE, [*names, keys.job(revival.job_id)], args))


def _death(job_id: str, died_at: int, raw: bytes | None) -> Dead:
    if raw is None:
        return Dead(job_id, died_at, None, "its row is missing")
    try:
        row = parse(job_id, raw)
    except ValueError as error:
        return Dead(job_id, died_at, None, str(error))
    if isinstance(row, Row) and row.state is State.DEAD:
        return Dead(job_id, died_at, row)
    return Dead(job_id, died_at, None, "its row does not say that it died")
