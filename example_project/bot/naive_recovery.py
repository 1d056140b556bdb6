"""Recovery as one writes it without a script: read what expired, read those jobs, and move them.

It is here to be run beside the real one, and to show that the test of many sweepers at once can tell them apart.
"""

from dataclasses import dataclass
from typing import cast

from echomq_django.bus.queue import Queue
from echomq_django.bus.row import Row, State, parse

_STALLED_BEHIND_ROW = 6  # attempts (4 bytes) and failures (2) stand between the order and the stalls


@dataclass(frozen=True, slots=True)
class NaivelyRecovered:
    """The ids that one pass believes to have taken back."""

    stalled: list[str]


def recover(queue: Queue, *, limit: int) -> NaivelyRecovered:
    """Take back expired leases, with all the time in the world between three steps."""
    seconds, microseconds = queue.client.time()
    now = int(seconds) * 1000 + int(microseconds) // 1000
    expired = queue.client.zrangebyscore(queue.keys.active, "-inf", now, start=0, num=limit)
    job_ids = [name.decode() for name in cast("list[bytes]", expired)]
    if job_ids:
        raws = queue.client.mget([queue.keys.job(job_id) for job_id in job_ids])
        _move(queue, dict(zip(job_ids, cast("list[bytes]", raws), strict=True)))
    return NaivelyRecovered(job_ids)


def _move(queue: Queue, raws: dict[str, bytes]) -> None:
    with queue.client.pipeline(transaction=False) as pipeline:
        pipeline.zadd(queue.keys.lanes, {"": 1}, nx=True)
        for job_id, raw in raws.items():
            row = parse(job_id, raw)
            assert isinstance(row, Row)
            pipeline.zrem(queue.keys.active, job_id)
            pipeline.srem(queue.keys.hand(row.holder), job_id)
            pipeline.zadd(queue.keys.pending, {job_id: row.order})
            at = raw.index(row.body) + len(row.body)
            pipeline.setrange(queue.keys.job(job_id), at, State.PENDING.value.encode() + b"\0")
            stalled_at = at + 10 + _STALLED_BEHIND_ROW
            pipeline.setrange(queue.keys.job(job_id), stalled_at, (row.stalled + 1).to_bytes(2, "little"))
        pipeline.execute()
