"""Recovery of leases whose holder is gone. Any number of processes may do it at once.

A job with a bound on its stalls is swept: the stall that reaches the bound kills it. A job without one is reaped: it
always comes back. Both are one script, and the bound is the row's own.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from echomq_django.bus.jobs import MAX_ROWS
from echomq_django.bus.queue import Queue
from echomq_django.bus.scripts import Script

_RECOVER, _ABANDON = Script("recovery/recover"), Script("recovery/abandon")


@dataclass(frozen=True, slots=True)
class Recovered:
    """The ids that one pass took back, by what became of them.

    `again` says that the limit was reached; `deaths` and `errands` count what waits to be mirrored and to be told to
    other queues, `active` the leases that are left. `due_ms` is None or how soon `schedule.promote` has something to do
    or to tell.
    """

    stalled: list[str]
    died: list[str]
    unstarted: list[str]
    suspect: list[str]
    again: bool = False
    grace_ms: int = 0
    deaths: int = 0
    errands: int = 0
    active: int = 0
    due_ms: int | None = None


def recover(queue: Queue, *, beat_ms: int = 1000, limit: int = MAX_ROWS) -> Recovered:
    """Take back expired leases; after an outage or a step of the clock, only when holders had time to renew.

    Wakes a worker, too, if jobs wait and no wake-up does. While there are leases somebody has to pass each `beat_ms`.
    """
    keys = queue.keys
    names = [keys.active, keys.pending, keys.lanes, keys.held, keys.limits]
    names += [keys.suspect, keys.isolated, keys.dead, keys.meta, keys.wake, keys.events, keys.scheduled, keys.handoff]
    reply = queue.run(_RECOVER, names, [keys.base, beat_ms, min(limit, MAX_ROWS)])
    again, grace_ms, stalled, died, unstarted, deaths, errands, active, due = reply
    ids = (_text(stalled), _text(died), _text(unstarted), list[str]())
    due_ms = None if due < 0 else due
    return Recovered(*ids, bool(again), grace_ms, deaths, errands, active, due_ms)


def abandon(queue: Queue, holder: str, running: Iterable[tuple[str, int]], *, shared: bool = False) -> Recovered:
    """Take back at once what a dead `holder` had; `running` (id, fence) is what it was doing.

    `shared` says that it was running jobs of other queues too, so that nobody knows which of them killed it.
    """
    keys = queue.keys
    names = [keys.active, keys.hand(holder), keys.pending, keys.lanes, keys.held, keys.limits]
    names += [keys.suspect, keys.dead, keys.meta, keys.wake, keys.events]
    args: list[Any] = [value for pair in running for value in pair]
    stalled, died, suspect, unstarted = queue.run(_ABANDON, names, [keys.base, holder, int(shared), *args])
    ids = (_text(stalled), _text(died), _text(unstarted), _text(suspect))
    return Recovered(*ids, deaths=len(died))


def _text(ids: list[bytes]) -> list[str]:
    return [job_id.decode() for job_id in ids]
