"""Dead letters: deaths on their way from the server to the database, and what operators do about them."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from django.db import DatabaseError, models, transaction
from django.utils import timezone

from echomq_django.bus import dead as bus_dead
from echomq_django.bus.dead import Dead
from echomq_django.bus.queue import Queue
from echomq_django.connection import get_bus
from echomq_django.exceptions import EchoMQError
from echomq_django.floor import database, display, outbox, record
from echomq_django.models import DeadJob
from echomq_django.signals import job_dead, job_requeued

logger = logging.getLogger(__name__)

_CHUNK = 50  # rows with their payloads are in memory at once


def mirror(queue: Queue, alias: str) -> list[DeadJob]:
    """Take up to 200 deaths over from the server, which forgets each of them after the COMMIT.

    Any number of processes may do it at once. Returns the deaths that this call took over and sends `job_dead` for
    them. Never call it inside a transaction.
    """
    deaths = bus_dead.unmirrored(queue)
    stored = _store(queue, alias, deaths)
    verdicts = bus_dead.forget(queue, [(row.job_id, row.death_key) for row in stored])
    # The server can't tell who was the first to forget a row that it can't read.
    taken = [row for row, forgotten in zip(stored, verdicts, strict=True) if forgotten or not row.is_readable]
    for row in taken:
        job_dead.send_robust(DeadJob, job_id=row.job_id, queue=row.queue, backend=row.backend, dead_job=row)
    return taken


def requeue(dead: Iterable[int], by: str) -> int:
    """Send dead jobs back to work and return how many changed; said twice it happens once.

    `dead` are primary keys, `by` is whom pages and history name. Deaths that were requeued or discarded before, or
    that can't be read, stay as they are. A server that is down gets the jobs later, from the outbox.
    """
    parked = [job for chunk in _chunks(dead) for job in _requeue(chunk, by)]
    transaction.on_commit(partial(_revive, parked), using=database.alias(), robust=True)
    return len(parked)


def discard(dead: Iterable[int], by: str, reason: str = "") -> int:
    """Set dead jobs aside for good and return how many changed; their rows stay, and their groups wait no longer."""
    chunks = [_discard(chunk, by, reason) for chunk in _chunks(dead)]
    rows, leaves = [row for some, _ in chunks for row in some], [leave for _, some in chunks for leave in some]
    transaction.on_commit(partial(_forget, rows), using=database.alias(), robust=True)
    transaction.on_commit(partial(outbox.push, leaves), using=database.alias(), robust=True)
    return len(rows)


def _store(queue: Queue, alias: str, deaths: Sequence[Dead]) -> list[DeadJob]:
    """Commit rows of `deaths` and return what the database shows of them now."""
    try:
        stored = _insert([record.of_death(queue, alias, death) for death in deaths])
    except DatabaseError:
        logger.exception(
            "Of %d deaths in queue %s the database refuses one; taking each alone", len(deaths), queue.name
        )
        stored = []
    known = {row.job_id for row in stored}
    return stored + [row for death in deaths if death.job_id not in known for row in _store_alone(queue, alias, death)]


def _store_alone(queue: Queue, alias: str, death: Dead) -> list[DeadJob]:
    try:
        stored = _insert([record.of_death(queue, alias, death)])
        problem = "" if stored else "the database stored nothing"
    except DatabaseError as error:
        stored, problem = [], f"the database refuses it: {error}"
    return stored or _insert([record.unreadable(queue, alias, death, problem)])


def _insert(rows: Sequence[DeadJob]) -> list[DeadJob]:
    """Commit the rows whose death is not there yet; what is not among the returned rows must not be forgotten."""
    if not rows:
        return []
    table = database.rows(DeadJob)
    with transaction.atomic(using=table.db, durable=True):
        table.bulk_create(rows, ignore_conflicts=True)
    keys = {(row.job_id, row.death_key) for row in rows}
    found = table.filter(job_id__in=[row.job_id for row in rows], death_key__in=[row.death_key for row in rows])
    return [row for row in found.defer("payload") if (row.job_id, row.death_key) in keys]


def _requeue(pks: Sequence[int], by: str) -> list[outbox.Parked]:
    with transaction.atomic(using=database.alias()):
        rows = list(_still_dead(pks).exclude(reason=DeadJob.UNREADABLE))
        _still_dead([row.pk for row in rows]).update(
            state=DeadJob.State.REQUEUED, requeued_at=timezone.now(), requeued_by=display.shortened(by, 255)
        )
        return outbox.park_revivals(rows)


def _discard(pks: Sequence[int], by: str, reason: str) -> tuple[list[DeadJob], list[outbox.Parked]]:
    with transaction.atomic(using=database.alias()):
        rows = list(_still_dead(pks).only("job_id", "death_key", "backend", "queue", "lease_ms", "group"))
        _still_dead([row.pk for row in rows]).update(
            state=DeadJob.State.DISCARDED,
            discarded_at=timezone.now(),
            discarded_by=display.shortened(by, 255),
            discard_reason=display.shortened(reason, display.MESSAGE_LIMIT),
        )
        return rows, outbox.park_leaves(rows)


def _still_dead(pks: Sequence[int]) -> models.QuerySet[DeadJob]:
    """Lock the rows that are dead. Whoever waits for the lock sees what the other made of them."""
    return database.rows(DeadJob).filter(pk__in=pks, state=DeadJob.State.DEAD).order_by("pk").select_for_update()


def _revive(parked: Sequence[outbox.Parked]) -> None:
    outbox.push(parked)
    for job in parked:
        job_requeued.send_robust(DeadJob, job_id=job.job_id, queue=job.queue, backend=job.backend)


def _forget(rows: Sequence[DeadJob]) -> None:
    """Spare the mirror a second look at deaths that the server may still have."""
    where: defaultdict[str, defaultdict[str, list[tuple[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        where[row.backend][row.queue].append((row.job_id, row.death_key))
    for alias, queues in where.items():
        try:
            for queue, keys in queues.items():
                bus_dead.forget(get_bus(alias).queue(queue), keys)
        except EchoMQError as error:
            logger.warning("The mirror of backend %s has to look again at jobs that were discarded: %s", alias, error)


def _chunks(pks: Iterable[int]) -> Iterator[list[int]]:
    known = sorted(set(pks))  # in one order for all, so that two operators never wait for each other
    for start in range(0, len(known), _CHUNK):
        yield known[start : start + _CHUNK]
