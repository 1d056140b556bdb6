"""Bounded reads for people: plain commands in pipelines, never a scan and never a whole set."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from redis import ResponseError

from echomq_django.bus.jobs import MAX_ROWS
from echomq_django.bus.queue import Queue, server_errors
from echomq_django.bus.row import Row, parse


@dataclass(frozen=True, slots=True)
class Leased:
    """A live job and the server millisecond at which its lease ends; None if nobody has it in hand."""

    queue: str
    row: Row
    expires_at: int | None


@dataclass(frozen=True, slots=True)
class LeaseCount:
    """How many leases a queue has, and how many of them are overdue: these come first in every range."""

    total: int
    overdue: int


def server_ms(queue: Queue) -> int:
    """Return the server's clock in milliseconds."""
    with server_errors("reading the clock"):
        seconds, micros = queue.client.time()
    return seconds * 1000 + micros // 1000


def raw(queue: Queue, job_id: str) -> bytes:
    """Return the bytes under a job's key, whatever they mean; none if there is nothing, DUMP's if it is no string."""
    with server_errors("reading a row"):
        try:
            return cast("bytes | None", queue.client.get(queue.keys.job(job_id))) or b""
        except ResponseError as error:
            if str(error).startswith("WRONGTYPE"):
                return queue.client.dump(queue.keys.job(job_id)) or b""
            raise


def count_leases(queues: Sequence[Queue], now: int) -> list[LeaseCount]:
    """Return the counts of `queues`, which share a server, in one round trip."""
    if not queues:
        return []
    with server_errors("counting leases"), queues[0].client.pipeline(transaction=False) as pipeline:
        for queue in queues:
            pipeline.zcard(queue.keys.active)
            pipeline.zcount(queue.keys.active, "-inf", now)
        counts = iter(pipeline.execute())
    return [LeaseCount(total, overdue) for total, overdue in zip(counts, counts, strict=True)]


def leases(ranges: Sequence[tuple[Queue, int, int]]) -> list[Leased]:
    """Return the leases in `ranges` (queue, first rank, last rank), nearest deadline first, at most 200.

    Two round trips. A job that left while it was read is not in the answer.
    """
    if not ranges:
        return []
    with server_errors("reading leases"), ranges[0][0].client.pipeline(transaction=False) as pipeline:
        for queue, first, last in ranges:
            pipeline.zrange(queue.keys.active, first, last, withscores=True)
        found = [
            (queue, job_id.decode(), int(expires_at))
            for (queue, _, _), members in zip(ranges, pipeline.execute(), strict=True)
            for job_id, expires_at in members
        ][:MAX_ROWS]
        for queue, job_id, _ in found:
            pipeline.get(queue.keys.job(job_id))
        rows = pipeline.execute()
    parsed = [(queue, _row(job_id, raw), ends) for (queue, job_id, ends), raw in zip(found, rows, strict=True)]
    return [Leased(queue.name, row, ends) for queue, row, ends in parsed if row]


def lease(queue: Queue, job_id: str) -> Leased | None:
    """Return one live job with its lease, if it has one; None for a job that ended or was never there."""
    with server_errors("reading a lease"), queue.client.pipeline(transaction=False) as pipeline:
        pipeline.get(queue.keys.job(job_id))
        pipeline.zscore(queue.keys.active, job_id)
        found, expires_at = pipeline.execute()
    row = _row(job_id, found)
    return Leased(queue.name, row, None if expires_at is None else int(expires_at)) if row else None


def _row(job_id: str, found: Any) -> Row | None:
    """Return a live row; what can't be read is the business of those who move it."""
    try:
        row = parse(job_id, found) if found else None
    except (ValueError, OverflowError, struct.error):
        return None
    return row if isinstance(row, Row) else None
