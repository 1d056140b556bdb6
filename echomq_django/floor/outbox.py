"""The outbox: jobs that wait in the database until the server has them."""

import logging
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import cast

from django.db import models, transaction
from django.utils import timezone

from echomq_django.bus import dead, groups, jobs
from echomq_django.bus.dead import Revival
from echomq_django.bus.jobs import MAX_ROWS, Extras, NewJob
from echomq_django.bus.message import Message
from echomq_django.bus.queue import Queue
from echomq_django.connection import Bus, get_bus
from echomq_django.exceptions import BusFull, BusRefused, BusUnavailable, EchoMQError
from echomq_django.floor import database, display, instants
from echomq_django.models import DeadJob, OutboxJob

logger = logging.getLogger(__name__)

_NEVER_MS = 10 * 365 * 86_400_000


def park(alias: str, queue_name: str, job: NewJob, error: str) -> OutboxJob:
    """Keep a job that could not be pushed, and why; parked twice it is kept once."""
    facts = {
        "backend": alias,
        "queue": queue_name,
        "lane": job.lane,
        "body": job.body,
        "priority": job.priority,
        "max_stalled": job.max_stalled,
        "lease_ms": job.lease_ms,
        "due_at": timezone.now() + timedelta(milliseconds=job.delay_ms) if job.delay_ms else None,
        "extras": job.extras or {},
        "error": display.shortened(error, display.MESSAGE_LIMIT),
    }
    return database.rows(OutboxJob).get_or_create(job_id=job.job_id, death_key="", defaults=facts)[0]


def cancel(job_id: str) -> bool:
    """Keep a parked job from ever running and tell the server, now or by `relay`; False if none is parked.

    Whoever pushes it at this moment comes first: then it is parked no more, and the server has it.
    """
    with transaction.atomic(using=database.alias()):
        parked = database.rows(OutboxJob).select_for_update().filter(job_id=job_id, death_key="").first()
        if parked is None:
            return False
        parked.extras["cancelled"] = True
        parked.save(update_fields=["extras"])
    push([Parked(parked.pk, job_id, parked.backend, parked.queue)])
    return True


@dataclass(frozen=True, slots=True)
class Parked:
    """Which row of the outbox holds which job, without the job itself."""

    pk: int
    job_id: str
    backend: str
    queue: str


def park_revivals(deaths: Iterable[DeadJob]) -> list[Parked]:
    """Keep the way back of `deaths`; it happens in the transaction that calls them requeued."""
    return _parked(_revival_of(death) for death in deaths)


def park_leaves(deaths: Iterable[DeadJob]) -> list[Parked]:
    """Keep that `deaths` leave their groups; it happens in the transaction that discards them."""
    return _parked(_leave_of(death) for death in deaths if death.group)


def waiting_revivals() -> int:
    """Return how many requeued jobs the server has yet to take."""
    return database.rows(OutboxJob).exclude(death_key="").exclude(extras__has_key="leaves").count()


def push(parked: Iterable[Parked]) -> None:
    """Push parked jobs now. What the server can't take stays for `relay`, with a warning in the log."""
    by_backend: defaultdict[str, list[int]] = defaultdict(list)
    for job in parked:
        by_backend[job.backend].append(job.pk)
    for alias, pks in by_backend.items():
        try:
            for start in range(0, len(pks), MAX_ROWS):
                part = database.rows(OutboxJob).filter(pk__in=pks[start : start + MAX_ROWS])
                _deliver(get_bus(alias), part.order_by("id"))
        except EchoMQError as error:
            logger.warning("Jobs of backend %s wait in the outbox until a worker can push them: %s", alias, error)


def relay(bus: Bus, *, limit: int = MAX_ROWS) -> int:
    """Push the oldest parked jobs of the queues that `bus` serves, and return how many it took.

    Any number of processes may do it at once. One that the server refuses keeps the error and goes behind the others;
    while the server takes none at all, the typed error is raised.
    """
    names = [queue.name for queue in bus.queues()]
    parked = database.rows(OutboxJob).filter(backend=bus.settings.alias, queue__in=names)
    return _deliver(bus, parked.order_by("tries", "id")[:limit])


def _deliver(bus: Bus, parked: models.QuerySet[OutboxJob]) -> int:
    outage: EchoMQError | None = None
    taken: list[int] = []
    with transaction.atomic(using=parked.db):
        for job in database.unclaimed(parked):
            try:
                _push(bus, job)
            except (BusUnavailable, BusFull, BusRefused) as error:
                outage = error
                break
            except EchoMQError as error:
                _refused(job, error)
            else:
                taken.append(job.pk)
        database.rows(OutboxJob).filter(pk__in=taken).delete()
    if outage:
        raise outage
    return len(taken)


def _push(bus: Bus, job: OutboxJob) -> None:
    """Hand one job to the server. Saying it again adds nothing while the server remembers the job."""
    queue = bus.queue(job.queue)
    if "leaves" in job.extras:
        groups.leave(queue, job.extras["leaves"], job.job_id)
    elif "cancelled" in job.extras:
        _push_cancelled(queue, job)
    elif not job.death_key:
        jobs.enqueue(queue, [_new_job(job)])
    elif not dead.requeue(queue, _revival(job)):
        logger.warning("Job %s was requeued, but it lives or has ended already: nothing to do", job.job_id)


def _push_cancelled(queue: Queue, job: OutboxJob) -> None:
    """Let the server count a job as cancelled that it may have had and may not: it never gets one that can start."""
    extras = {name: value for name, value in job.extras.items() if name not in ("cancelled", "unique")}
    jobs.enqueue(queue, [replace(_new_job(job), delay_ms=_NEVER_MS, extras=cast(Extras, extras) or None)])
    jobs.cancel(queue, job.job_id)


def _parked(rows: Iterable[OutboxJob]) -> list[Parked]:
    created = database.rows(OutboxJob).bulk_create(rows)
    return [Parked(row.pk, row.job_id, row.backend, row.queue) for row in created]


def _refused(job: OutboxJob, error: EchoMQError) -> None:
    logger.error("The server refuses parked job %s: %s", job.job_id, error)
    job.tries += 1
    job.error = display.shortened(str(error), display.MESSAGE_LIMIT)
    job.save(update_fields=["tries", "error"])


def _revival_of(death: DeadJob) -> OutboxJob:
    message = Message(death.task, bytes(death.payload), death.backend, death.headers, death.options)
    return OutboxJob(
        job_id=death.job_id,
        death_key=death.death_key,
        backend=death.backend,
        queue=death.queue,
        lane=death.lane,
        body=message.pack(),
        priority=death.priority,
        max_stalled=death.max_stalled,
        lease_ms=death.lease_ms,
        attempts=death.attempts,
        deaths=death.death_no,
        enqueued_at=death.enqueued_at,
        extras=_extras_of(death),
    )


def _extras_of(death: DeadJob) -> Extras:
    extras = Extras()
    if death.group:
        extras["group"] = death.group
    if death.isolate:
        extras["isolate"] = True
    return extras


def _leave_of(death: DeadJob) -> OutboxJob:
    return OutboxJob(
        job_id=death.job_id,
        death_key=death.death_key,
        backend=death.backend,
        queue=death.queue,
        body=b"",
        lease_ms=death.lease_ms,
        extras={"leaves": death.group},
    )


def _new_job(job: OutboxJob) -> NewJob:
    return NewJob(
        job_id=job.job_id,
        body=bytes(job.body),
        lane=job.lane,
        priority=job.priority,
        delay_ms=_delay_ms(job.due_at),
        max_stalled=job.max_stalled,
        lease_ms=job.lease_ms,
        via_outbox=True,
        extras=cast(Extras, job.extras) or None,
    )


def _revival(job: OutboxJob) -> Revival:
    return Revival(
        job_id=job.job_id,
        death_key=job.death_key,
        body=bytes(job.body),
        lane=job.lane,
        priority=job.priority,
        max_stalled=job.max_stalled,
        lease_ms=job.lease_ms,
        attempts=job.attempts,
        deaths=job.deaths,
        enqueued_at=instants.to_ms(job.enqueued_at or job.created_at),
        extras=cast(Extras, job.extras),
    )


def _delay_ms(due_at: datetime | None) -> int:
    return max(0, (due_at - timezone.now()) // timedelta(milliseconds=1)) if due_at else 0
