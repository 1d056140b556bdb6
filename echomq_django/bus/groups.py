"""Groups of jobs that another job waits for, and what one queue has to tell another."""

import json
from dataclasses import dataclass
from typing import cast

from echomq_django.bus.jobs import MAX_ROWS, GroupOf, NewJob, Verdict, enqueue
from echomq_django.bus.queue import Queue, server_errors
from echomq_django.bus.scripts import Script

_LEAVE, _RELEASE = Script("groups/leave"), Script("groups/release")


@dataclass(frozen=True, slots=True)
class Errand:
    """What a queue has to tell another: to take the job of a `parcel`, or to let the job `opens` go."""

    raw: bytes
    queue: str
    parcel: NewJob | None = None
    opens: str = ""


def leave(queue: Queue, group: GroupOf, job_id: str) -> bool:
    """Count a member as over that the queue does not have any more; True if it was the last."""
    keys = queue.keys
    return bool(queue.run(_LEAVE, [keys.meta, keys.wake], [keys.base, json.dumps(group), job_id]))


def release(queue: Queue, job_id: str) -> Verdict:
    """Let a job go that waited for a group of another queue; STALE means that it does not wait."""
    keys = queue.keys
    return Verdict(queue.run(_RELEASE, [keys.scheduled, keys.meta, keys.wake, keys.job(job_id)], [job_id]))


def over(queue: Queue, group_id: str) -> int:
    """Return how many members of a group are over: ended well, cancelled or discarded."""
    with server_errors("reading a group"):
        return queue.client.scard(queue.keys.group(group_id))


def errands(queue: Queue, limit: int = MAX_ROWS) -> list[Errand]:
    """Return the oldest errands that wait."""
    with server_errors("reading errands"):
        waiting = cast("list[bytes]", queue.client.lrange(queue.keys.handoff, 0, limit - 1))
    return [_errand(raw) for raw in waiting]


def run_errand(queue: Queue, errand: Errand, other: Queue) -> bool:
    """Tell the `other` queue and drop the errand of `queue`. Done twice it is done once.

    False, and the errand stays, while the job that it lets go is not there: it may wait in an outbox.
    """
    if errand.parcel:
        enqueue(other, [errand.parcel])
    elif release(other, errand.opens) is Verdict.MISSING:
        return False
    with server_errors("dropping an errand"):
        queue.client.lrem(queue.keys.handoff, 1, cast(str, errand.raw))
    return True


def _errand(raw: bytes) -> Errand:
    if raw.count(b"\0") > 1:
        queue, job = NewJob.unpack(raw)
        return Errand(raw, queue, job)
    queue_name, opens = raw.decode().split("\0")
    return Errand(raw, queue_name, None, opens)
