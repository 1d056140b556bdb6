"""Jobs that wait for a time: delayed ones and those that back off."""

from dataclasses import dataclass

from echomq_django.bus.jobs import MAX_ROWS
from echomq_django.bus.queue import Queue
from echomq_django.bus.scripts import Script

_PROMOTE = Script("schedule/promote")


@dataclass(frozen=True, slots=True)
class Promoted:
    """What one pass moved; `next_due_ms` is None when nothing else is scheduled."""

    count: int
    next_due_ms: int | None
    again: bool


def promote(queue: Queue, *, limit: int = MAX_ROWS) -> Promoted:
    """Move jobs that are due to their lanes."""
    keys = queue.keys
    names = [keys.scheduled, keys.pending, keys.lanes, keys.wake, keys.events, keys.meta]
    again, count, due = queue.run(_PROMOTE, names, [keys.base, min(limit, MAX_ROWS)])
    return Promoted(count, None if due < 0 else due, bool(again))
