"""Recovery as one writes it without a script: read what expired, then move each job with a command at a time.

It is here to show that the test of many sweepers at once can tell a recovery that counts twice from one that does not.
"""

from dataclasses import dataclass

from echomq_django.bus.queue import Queue
from echomq_django.bus.row import Row, State, parse

_STALLED_BEHIND_ROW = 6  # attempts (4 bytes) and failures (2) stand between the order and the stalls


@dataclass(frozen=True, slots=True)
class NaivelyRecovered:
    """The ids that one pass believes to have taken back."""

    stalled: list[str]


def recover(queue: Queue) -> NaivelyRecovered:
    """Take back expired leases, with all the time in the world between two commands."""
    seconds, microseconds = queue.client.time()
    now = int(seconds) * 1000 + int(microseconds) // 1000
    expired = [name.decode() for name in queue.client.zrangebyscore(queue.keys.active, "-inf", now)]
    for job_id in expired:
        _take_back(queue, job_id)
    return NaivelyRecovered(expired)


def _take_back(queue: Queue, job_id: str) -> None:
    key = queue.keys.job(job_id)
    raw = queue.client.get(key)
    row = parse(job_id, raw)
    assert isinstance(row, Row)
    queue.client.zrem(queue.keys.active, job_id)
    queue.client.srem(queue.keys.hand(row.holder), job_id)
    queue.client.zadd(queue.keys.pending, {job_id: row.order})
    queue.client.zadd(queue.keys.lanes, {"": 1}, nx=True)
    at = raw.index(row.body) + len(row.body)
    queue.client.setrange(key, at, State.PENDING.value.encode() + b"\0")
    queue.client.setrange(key, at + 10 + _STALLED_BEHIND_ROW, (row.stalled + 1).to_bytes(2, "little"))
