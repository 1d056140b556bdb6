"""What an operator asks first: how much waits where and since when, and whether server and database answer."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.db import DatabaseError, InterfaceError
from django.db.models import Count, Min
from django.utils import timezone

from echomq_django.bus import limits
from echomq_django.bus.queue import Counts, Queue, count
from echomq_django.connection import check_server, get_bus
from echomq_django.exceptions import BusError
from echomq_django.floor import database
from echomq_django.models import DeadJob, OutboxJob

_NOTHING = Counts(0, 0, 0, 0, 0, None, 0)
_Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """One queue; times are seconds.

    `oldest` is how long the oldest pending job has been ready. `waiting` of the scheduled ones wait for a group, `held`
    of the pending ones are in lanes that a limit or a pause keeps, and `pending` leaves out the jobs of
    `lanes_not_counted`. `unmirrored` died and have no row of `DeadJob` yet,
    `dead` have one and were neither requeued nor discarded, `parked` wait in the database for the server. A queue that
    is not `listed` in `QUEUES` is known only to the database.
    """

    backend: str
    queue: str
    listed: bool
    pending: int
    oldest: float | None
    scheduled: int
    next_due: float | None
    waiting: int
    active: int
    suspect: int
    unmirrored: int
    lanes: int
    lanes_not_counted: int
    held: int
    paused: dict[str, Any] | None
    concurrency: int | None
    rate: str | None
    forgotten_early: int
    dead: int
    parked: int
    parked_oldest: float | None


@dataclass(frozen=True, slots=True)
class Floor:
    """What the database has: deaths by their state; by backend and queue the dead, and the parked with their age."""

    states: dict[str, int] = field(default_factory=dict)
    dead: dict[_Place, int] = field(default_factory=dict)
    parked: dict[_Place, tuple[int, float]] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class BackendStatus:
    """One alias of `TASKS`; a `problem` says why there are no counts of its server."""

    backend: str
    address: str
    server: str
    queues: list[QueueStatus]
    problem: str = ""


def read_floor(aliases: Iterable[str]) -> Floor:
    """Return what the database has, of all backends by state and of `aliases` by queue; it counts every row."""
    mine, now = list(aliases), timezone.now()
    deaths, parked = database.rows(DeadJob).order_by(), database.rows(OutboxJob).order_by()
    dead = deaths.filter(state=DeadJob.State.DEAD, backend__in=mine).values_list("backend", "queue")
    waiting = parked.filter(backend__in=mine).values_list("backend", "queue")
    try:
        return Floor(
            dict(deaths.values_list("state").annotate(number=Count("*"))),
            {(alias, queue): number for alias, queue, number in dead.annotate(number=Count("*"))},
            {
                (alias, queue): (number, (now - oldest).total_seconds())
                for alias, queue, number, oldest in waiting.annotate(number=Count("*"), oldest=Min("created_at"))
            },
        )
    except (DatabaseError, InterfaceError) as error:
        return Floor(problem=f"the database {database.alias()!r} does not answer: {error}".strip())


def read_backend(alias: str, floor: Floor) -> BackendStatus:
    """Return how the queues of `alias` are, with what `floor` has of them; a few round trips for each queue."""
    bus = get_bus(alias)
    known = [queue.name for queue in bus.queues()]
    unlisted = sorted({name for backend, name in [*floor.dead, *floor.parked] if backend == alias} - {*known})
    try:
        server = check_server(bus.queues()[0].client)
        queues = [_of_queue(alias, queue, floor) for queue in bus.queues()]
    except BusError as error:
        return BackendStatus(alias, bus.address(), "", [], str(error))
    rest = [_status(alias, name, floor, _NOTHING, limits.Limits(), listed=False) for name in unlisted]
    return BackendStatus(alias, bus.address(), server, [*queues, *rest])


def _of_queue(alias: str, queue: Queue, floor: Floor) -> QueueStatus:
    return _status(alias, queue.name, floor, count(queue), limits.read(queue), listed=True)


def _status(
    alias: str, name: str, floor: Floor, counts: Counts, limited: limits.Limits, *, listed: bool
) -> QueueStatus:
    parked, parked_oldest = floor.parked.get((alias, name), (0, None))
    return QueueStatus(
        backend=alias,
        queue=name,
        listed=listed,
        pending=counts.pending,
        oldest=_seconds(counts.oldest_ms),
        scheduled=counts.scheduled,
        next_due=_seconds(counts.next_due_ms),
        waiting=counts.waiting,
        active=counts.active,
        suspect=counts.suspect,
        unmirrored=counts.dead,
        lanes=counts.lanes,
        lanes_not_counted=counts.lanes_not_counted,
        held=counts.held,
        paused=counts.paused,
        concurrency=limited.concurrency,
        rate=limited.rate,
        forgotten_early=counts.forgotten_early,
        dead=floor.dead.get((alias, name), 0),
        parked=parked,
        parked_oldest=parked_oldest,
    )


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
