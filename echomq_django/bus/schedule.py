"""Jobs that wait for a time: delayed ones and those that back off."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import cast

from echomq_django.bus.jobs import MAX_ROWS, NewJob, enqueue_args
from echomq_django.bus.queue import Queue, server_errors
from echomq_django.bus.scripts import Script

_PROMOTE, _FIRE, _HASTEN = Script("schedule/promote"), Script("schedule/fire"), Script("schedule/hasten")


@dataclass(frozen=True, slots=True)
class Promoted:
    """What one pass moved.

    `next_due_ms` is None when nothing else is scheduled. `alone` says that something is to be run alone and may start.
    """

    count: int
    next_due_ms: int | None
    again: bool
    alone: bool = False


def promote(queue: Queue, *, limit: int = MAX_ROWS) -> Promoted:
    """Move jobs that are due to their lanes, and lanes that a rate allows to be served again into the ring."""
    keys = queue.keys
    names = [keys.scheduled, keys.pending, keys.lanes, keys.held, keys.limits, keys.active]
    names += [keys.suspect, keys.isolated, keys.dead, keys.meta, keys.wake, keys.events]
    again, count, due, alone = queue.run(_PROMOTE, names, [keys.base, min(limit, MAX_ROWS)])
    return Promoted(count, None if due < 0 else due, bool(again), bool(alone))


def fire(queue: Queue, schedule: str, slot: str, job: NewJob) -> bool:
    """Enqueue the `job` of a slot; False if that slot of `schedule`, or a later one, has been fired.

    `slot` is text that sorts by time, such as an ISO date and time. Any number of processes may fire the same slot.
    A unique job may become an alias of the one that has its key: that slot is fired, too.
    """
    keys = queue.keys
    names = [keys.pending, keys.lanes, keys.held, keys.limits, keys.scheduled, keys.meta, keys.wake, keys.slots]
    return bool(queue.run(_FIRE, [*names, keys.job(job.job_id)], [keys.base, schedule, slot, *enqueue_args(job)]))


def last_slots(queue: Queue) -> dict[str, str]:
    """Return the last slot that was fired of each schedule."""
    with server_errors("reading the slots of schedules"):
        found = cast("dict[bytes, bytes]", queue.client.hgetall(queue.keys.slots))
    return {schedule.decode(): slot.decode() for schedule, slot in found.items()}


def hasten(queue: Queue, ms: int) -> int:
    """Bring all jobs that wait for a time forward by `ms`, as if that time had passed, and return how many.

    Their order stays, and what expires does so earlier. A job that waits for a group has no time and stays as it is.
    """
    keys, count = queue.keys, 0
    for page in _pages(queue):
        rows = [keys.job(job_id) for job_id, _ in page]
        args = [value for job_id, due in page for value in (job_id, f"{due:.0f}")]
        count += sum(queue.run(_HASTEN, [keys.scheduled, keys.meta, keys.wake, *rows], [ms, *args]))
    return count


def _pages(queue: Queue) -> Iterator[list[tuple[str, float]]]:
    """Yield what waits for a time in the order of its ranks, which being hastened does not change."""
    for start in range(0, 1 << 62, MAX_ROWS):
        with server_errors("reading the schedule"):
            found = queue.client.zrange(queue.keys.scheduled, start, start + MAX_ROWS - 1, withscores=True)
        members = cast("list[tuple[bytes, float]]", found)
        page = [(job_id.decode(), due) for job_id, due in members if isfinite(due)]
        if page:
            yield page
        if len(page) < MAX_ROWS:
            return
