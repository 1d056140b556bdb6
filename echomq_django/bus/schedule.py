"""Jobs that wait for a time: delayed ones and those that back off."""

from dataclasses import dataclass

from echomq_django.bus.jobs import MAX_ROWS, NewJob, enqueue_args
from echomq_django.bus.queue import Queue
from echomq_django.bus.scripts import Script

_PROMOTE, _FIRE = Script("schedule/promote"), Script("schedule/fire")


@dataclass(frozen=True, slots=True)
class Promoted:
    """What one pass moved; `next_due_ms` is None when nothing else is scheduled."""

    count: int
    next_due_ms: int | None
    again: bool


def promote(queue: Queue, *, limit: int = MAX_ROWS) -> Promoted:
    """Move jobs that are due to their lanes, and lanes that a rate allows to be served again into the ring."""
    keys = queue.keys
    names = [keys.scheduled, keys.pending, keys.lanes, keys.held, keys.limits, keys.active]
    names += [keys.dead, keys.meta, keys.wake, keys.events]
    again, count, due = queue.run(_PROMOTE, names, [keys.base, min(limit, MAX_ROWS)])
    return Promoted(count, None if due < 0 else due, bool(again))


def fire(queue: Queue, schedule: str, slot: str, job: NewJob) -> bool:
    """Enqueue the `job` of a slot; False if that slot of `schedule`, or a later one, has been fired.

    `slot` is text that sorts by time, such as an ISO date and time. Any number of processes may fire the same slot.
    """
    keys = queue.keys
    names = [keys.pending, keys.lanes, keys.held, keys.limits, keys.scheduled, keys.meta, keys.wake, keys.slots]
    return bool(queue.run(_FIRE, [*names, keys.job(job.job_id)], [keys.base, schedule, slot, *enqueue_args(job)]))
