"""The moves of a job in the hands of producers and workers."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, NamedTuple, TypedDict, cast

from echomq_django.bus.keyspace import check_lane
from echomq_django.bus.queue import Queue, server_errors
from echomq_django.bus.row import Done, Failure, Row, Token, alias_of, pack_max_stalled, parse, unpack_max_stalled
from echomq_django.bus.scripts import Script

MAX_ROWS = 200  # a script blocks the server for 1.7 ms with 100 rows, and for 10 ms with 1,000
MAX_BYTES = 1 << 20
MAX_RESULTS = 100_000
MAX_LINES, MAX_LINE = 200, 1000  # of the log of one job
MAX_RESULT_AT_LIMIT = 4096  # unbounded results took a server to 7.7 times its memory limit

_ENQUEUE, _CLAIM, _CLAIM_ALONE = Script("jobs/enqueue"), Script("jobs/claim"), Script("jobs/claim_alone")
_EXTEND, _COMPLETE, _RETRY = Script("jobs/extend"), Script("jobs/complete"), Script("jobs/retry")
_COMPLETE_LARGE = Script("jobs/complete", allow_oom=False)
_RELEASE, _DIE, _DISCARD = Script("jobs/release"), Script("jobs/die"), Script("jobs/discard")
_CANCEL, _PROGRESS = Script("jobs/cancel"), Script("jobs/progress")


class Unique(TypedDict, total=False):
    """`key` is a hash; `mode` is start, done, debounce or ttl, and with ttl `ms` says for how long."""

    key: str
    mode: str
    ms: int


class GroupOf(TypedDict, total=False):
    """The group of a job: its `id`, its `size`, the job that waits for it, and the queue of that if it is another."""

    id: str
    size: int
    after: str
    queue: str


class After(TypedDict):
    """The group that a job waits for; `far`: it is one of another queue, which will say so."""

    group: str
    size: int
    far: bool


class Extras(TypedDict, total=False):
    """What few jobs have and the server must know.

    `expires` is the ms after which a job that has not started dies; one with `isolate` is always run alone.
    """

    expires: int
    isolate: bool
    unique: Unique
    group: GroupOf
    after: After


class Entry(IntEnum):
    """What became of a job that was to be enqueued."""

    ADDED = 1
    KNOWN = 0
    MERGED = 2


class Cancelled(IntEnum):
    """What became of the wish to cancel a job."""

    NOW = 1
    ASKED = 2
    OVER = 0
    MISSING = -1
    MERGED = -2


class Verdict(IntEnum):
    """What the server says to a holder that wants to end a lease."""

    ACCEPTED = 1
    STALE = 0
    MISSING = -1


_ENTRIES, _VERDICTS = {one.value: one for one in Entry}, {one.value: one for one in Verdict}


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be enqueued. `delay_ms` counts from the server's clock; `max_stalled` None means without a bound."""

    job_id: str
    body: bytes
    lane: str = ""
    priority: int = 0
    delay_ms: int = 0
    max_stalled: int | None = 3
    lease_ms: int = 30_000
    via_outbox: bool = False
    extras: Extras | None = None

    def with_extras(self, extras: Extras) -> "NewJob":
        """Return this job with more extras."""
        return replace(self, extras={**(self.extras or {}), **extras})

    def parcel(self, queue: str) -> bytes:
        """Return the job as one text, for a script that enqueues it later: nine fields and the body, NUL between."""
        return b"\0".join(_text(value) for value in (queue, *enqueue_args(self)))

    @classmethod
    def unpack(cls, parcel: bytes) -> "tuple[str, NewJob]":
        """Return the queue and the job in a parcel."""
        *fields, body = parcel.split(b"\0", 9)
        queue, job_id, lane, priority, delay_ms, bound, lease_ms, flags, extras = (part.decode() for part in fields)
        return queue, cls(
            job_id=job_id,
            body=body,
            lane=lane,
            priority=int(priority) - 100,
            delay_ms=int(delay_ms),
            max_stalled=unpack_max_stalled(int(bound)),
            lease_ms=int(lease_ms),
            via_outbox=flags == "2",
            extras=json.loads(extras) if extras else None,
        )


class Completion(NamedTuple):
    """A job that ended well. `result` is `Done.pack_result()`; with `ttl_ms` 0 nothing is kept.

    `parcel` is the job that follows in a chain, from `NewJob.parcel()`.
    """

    job_id: str
    token: Token
    ttl_ms: int
    result: bytes
    parcel: bytes = b""


class Retry(NamedTuple):
    """A job that failed and is to be tried again after `delay_ms`."""

    job_id: str
    token: Token
    delay_ms: int
    failure: Failure


class Release(NamedTuple):
    """A job that is handed back, after `delay_ms` or at once to its old place; `failure` says why it can't start."""

    job_id: str
    token: Token
    delay_ms: int = 0
    failure: Failure | None = None


class Death(NamedTuple):
    """A job that is given up; `failures` (0 or 1) is what this end adds to its count."""

    job_id: str
    token: Token
    failure: Failure
    failures: int = 1


def new_nonce() -> bytes:
    """Return the 8 random bytes that make the tokens of one claim unforgeable."""
    return os.urandom(8)


def enqueue(queue: Queue, jobs: Sequence[NewJob]) -> list[Entry]:
    """Add `jobs`, in chunks of at most 200 rows and 1 MiB. Saying it again adds nothing.

    A job whose unique key is taken becomes an alias of the job that has it. Raises `BusFull` before anything of a chunk
    is written.
    """
    keys = queue.keys
    shared = [keys.pending, keys.lanes, keys.held, keys.limits, keys.scheduled, keys.meta, keys.wake]
    entries: list[Entry] = []
    for chunk in _chunks(jobs):
        rows = [keys.job(job.job_id) for job in chunk]
        args = [value for job in chunk for value in enqueue_args(job)]
        entries += [_ENTRIES[reply] for reply in queue.run(_ENQUEUE, shared + rows, [keys.base, *args])]
    return entries


def claim(
    queue: Queue, holder: str, nonce: bytes, count: int, *, starting: int = MAX_ROWS, again: bool = False
) -> list[Row]:
    """Lease up to `count` jobs to `holder`, a share from each ready lane in turn; the first `starting` start now.

    Never retried by itself: after a lost reply say the same `nonce` with `again=True`.
    """
    keys = queue.keys
    names = [keys.pending, keys.lanes, keys.held, keys.limits, keys.active, keys.hand(holder), keys.scheduled]
    names += [keys.dead, keys.meta, keys.wake, keys.events]
    reply = queue.run(_CLAIM, names, [keys.base, holder, nonce, min(count, MAX_ROWS), starting, int(again)])
    return _rows(reply)


def claim_alone(queue: Queue, holder: str, nonce: bytes, *, again: bool = False) -> Row | None:
    """Lease the oldest suspect, or else the next isolated job, to a `holder` that runs nothing else."""
    keys = queue.keys
    names = [keys.suspect, keys.isolated, *_lane_keys(queue, holder), keys.scheduled, keys.dead]
    names += [keys.meta, keys.wake, keys.events]
    return next(iter(_rows(queue.run(_CLAIM_ALONE, names, [keys.base, holder, nonce, int(again)]))), None)


def extend(queue: Queue, holder: str, started: Iterable[tuple[str, int]] = ()) -> dict[str, Token]:
    """Renew what `holder` still has and return it by id; what others took is not in the answer.

    `started` (id, fence) are the jobs that began since the claim: from now on a stall of theirs counts.
    """
    keys = queue.keys
    args = [value for pair in started for value in pair]
    reply = queue.run(_EXTEND, [keys.active, keys.hand(holder)], [keys.base, holder, *args])
    return {reply[i].decode(): Token(int(reply[i + 1]), reply[i + 2]) for i in range(0, len(reply), 3)}


def complete(queue: Queue, holder: str, ends: Sequence[Completion], *, max_results: int = MAX_RESULTS) -> list[Verdict]:
    """End jobs that ran well, and enqueue what follows them; a stale token is refused and changes nothing.

    Works at the memory limit. Only ends with results over 4 KiB are refused there, with `BusFull`: say them again
    without their results. Beyond `max_results` within one time to live, a result is kept for ten seconds only.
    """
    keys = queue.keys
    small = all(len(end.result) <= MAX_RESULT_AT_LIMIT for end in ends)
    args = [(end.job_id, end.token.fence, end.token.nonce, end.ttl_ms, end.result, end.parcel) for end in ends]
    names = [*_lane_keys(queue, holder), keys.scheduled, keys.meta, keys.wake, keys.handoff]
    return _end(queue, _COMPLETE if small else _COMPLETE_LARGE, names, [keys.base, max_results], args)


def retry(queue: Queue, holder: str, ends: Sequence[Retry]) -> list[Verdict]:
    """Schedule failed jobs again and count the failure; a stale token is refused and changes nothing."""
    keys = queue.keys
    args = [(end.job_id, end.token.fence, end.token.nonce, end.delay_ms, end.failure.pack()) for end in ends]
    names = [*_lane_keys(queue, holder), keys.scheduled, keys.meta, keys.wake, keys.events]
    return _end(queue, _RETRY, names, [keys.base], args)


def release(queue: Queue, holder: str, ends: Sequence[Release]) -> list[Verdict]:
    """Hand jobs back without cost; a stale token is refused and changes nothing."""
    keys = queue.keys
    errors = [end.failure.pack() if end.failure else b"" for end in ends]
    args = [(e.job_id, e.token.fence, e.token.nonce, e.delay_ms, error) for e, error in zip(ends, errors, strict=True)]
    names = [*_lane_keys(queue, holder), keys.scheduled, keys.meta, keys.wake, keys.events]
    return _end(queue, _RELEASE, names, [keys.base], args)


def die(queue: Queue, holder: str, ends: Sequence[Death]) -> list[Verdict]:
    """Give jobs up; they wait in `dead` for the mirror. A stale token is refused and changes nothing."""
    keys = queue.keys
    args = [(end.job_id, end.token.fence, end.token.nonce, end.failures, end.failure.pack()) for end in ends]
    names = [*_lane_keys(queue, holder), keys.dead, keys.meta, keys.wake, keys.events]
    return _end(queue, _DIE, names, [keys.base], args)


def cancel(queue: Queue, job_id: str) -> Cancelled:
    """End a job that waits; a job that runs is asked to stop, and gets no other turn if it does not end well.

    A job that was MERGED goes on: others wait for the one that stands for it, which has an id of its own.
    """
    keys = queue.keys
    names = [keys.pending, keys.lanes, keys.held, keys.limits, keys.scheduled, keys.suspect, keys.meta, keys.events]
    return Cancelled(queue.run(_CANCEL, [*names, keys.job(job_id)], [keys.base, job_id]))


def discard(queue: Queue, job_id: str) -> Verdict:
    """Take a job that nobody holds out of the queue for good; STALE means that somebody holds it."""
    keys = queue.keys
    names = [keys.pending, keys.lanes, keys.scheduled, keys.suspect, keys.dead, keys.events, keys.meta, keys.held]
    return Verdict(queue.run(_DISCARD, [*names, keys.limits, keys.job(job_id)], [keys.base, job_id]))


def progress(
    queue: Queue, job_id: str, token: Token, *, done: tuple[float, float] | None = None, line: str = ""
) -> bool:
    """Note how far a job is (`done` of how much) or a line of its log; False if the token is stale."""
    keys = queue.keys
    how_far = f"{done[0]:.15g}\0{done[1]:.15g}" if done else ""
    names = [keys.job(job_id), keys.progress(job_id), keys.log(job_id)]
    return bool(queue.run(_PROGRESS, names, [token.fence, token.nonce, how_far, _shortened(line), MAX_LINES]))


def read(queue: Queue, job_id: str) -> Row | Done | None:
    """Return a job's row, or None if the server has none; of a merged job, the row of the one that stands for it.

    Raises `ValueError` for a row of an unknown format.
    """
    with server_errors("reading a job"):
        raw = cast(bytes | None, queue.client.get(queue.keys.job(job_id)))
        if raw is not None and (winner := alias_of(raw)):
            job_id, raw = winner, cast(bytes | None, queue.client.get(queue.keys.job(winner)))
    return None if raw is None else parse(job_id, raw)


def stands_for(queue: Queue, job_id: str) -> str:
    """Return the id of the job that a merged one is now, or `job_id` itself."""
    with server_errors("reading a job"):
        raw = cast(bytes | None, queue.client.get(queue.keys.job(job_id)))
    return (raw and alias_of(raw)) or job_id


def _shortened(line: str) -> str:
    return line if len(line) <= MAX_LINE else line[: MAX_LINE - 3] + "..."


def _lane_keys(queue: Queue, holder: str) -> list[str]:
    keys = queue.keys
    return [keys.active, keys.hand(holder), keys.pending, keys.lanes, keys.held, keys.limits]


def _text(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def enqueue_args(job: NewJob) -> tuple[Any, ...]:
    """Return what the scripts that add a job are told of it: nine values."""
    bound, flags = pack_max_stalled(job.max_stalled), 2 if job.via_outbox else 0
    return (
        job.job_id,
        check_lane(job.lane),
        job.priority + 100,
        job.delay_ms,
        bound,
        job.lease_ms,
        flags,
        pack_extras(job.extras),
        job.body,
    )


def pack_extras(extras: Extras | None) -> str:
    """Return the text that a row has for `extras`: nothing for none."""
    return json.dumps(extras, separators=(",", ":")) if extras else ""


def _end(
    queue: Queue, script: Script, names: list[str], first: list[Any], ends: list[tuple[Any, ...]]
) -> list[Verdict]:
    verdicts: list[Verdict] = []
    for start in range(0, len(ends), MAX_ROWS):
        part = ends[start : start + MAX_ROWS]
        rows = [queue.keys.job(end[0]) for end in part]
        reply = queue.run(script, names + rows, [*first, *(value for end in part for value in end)])
        verdicts += [_VERDICTS[one] for one in reply]
    return verdicts


def _rows(reply: list[bytes]) -> list[Row]:
    return [cast(Row, parse(reply[i].decode(), reply[i + 1])) for i in range(0, len(reply), 2)]


def _chunks(jobs: Sequence[NewJob]) -> Iterator[list[NewJob]]:
    chunk: list[NewJob] = []
    size = 0
    for job in jobs:
        if chunk and (len(chunk) == MAX_ROWS or size + len(job.body) > MAX_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(job)
        size += len(job.body)
    if chunk:
        yield chunk
