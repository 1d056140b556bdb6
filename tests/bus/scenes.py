"""Puts jobs where a test wants them, by the moves that bring them there in life."""

from dataclasses import replace
from itertools import count
from typing import Any, cast

from echomq_django.bus import ids, jobs
from echomq_django.bus.dead import Revival
from echomq_django.bus.jobs import After, Completion, Death, Extras, GroupOf, NewJob, Release, Retry, Unique
from echomq_django.bus.message import Message
from echomq_django.bus.queue import Queue
from echomq_django.bus.recovery import recover
from echomq_django.bus.row import Done, Failure, Row, State, Token

W1, W2 = "host-1.1", "host-2.1"
LEASE = 30_000
SOON = 600_000  # far enough that no test reaches it by waiting
FAILURE = Failure("failed", "app.Boom", "no paper", "Traceback: line 1")
OBSTACLE = Failure("unknown task", "app.Lost", "no task", since=1_700_000_000_000)
RESULT = Done.pack_result("app.tasks.send", W1, b'"sent"')

_nonces = count(1)


def nonce() -> bytes:
    """Return a nonce that no other claim of this run had."""
    return next(_nonces).to_bytes(8)


def new_job(queue: Queue, **options: Any) -> NewJob:
    """Return a job that has not been enqueued yet."""
    body = Message("app.tasks.send", b'[[1],{"to":"a@example.org"}]').pack()
    return NewJob(**{"job_id": ids.mint(queue.name), "body": body, "lease_ms": LEASE} | options)


def enqueued(queue: Queue, number: int = 1, **options: Any) -> list[str]:
    """Enqueue `number` jobs and return their ids."""
    batch = [new_job(queue, **options) for _ in range(number)]
    assert all(jobs.enqueue(queue, batch))
    return [job.job_id for job in batch]


def unique(mode: str = "done", *, key: str = "k", ms: int = 0) -> Extras:
    """Return the extras of a job of which there is one for a `key`; with `ms` the mode is ttl."""
    return Extras(unique=Unique(key=key, mode="ttl", ms=ms) if ms else Unique(key=key, mode=mode))


def a_group(queue: Queue, size: int, *, of: Queue | None = None) -> GroupOf:
    """Return a group of `size` members in `queue`, after which a job of the same queue, or of the queue `of`, runs."""
    group = GroupOf(id=ids.mint(queue.name), size=size, after=ids.mint((of or queue).name))
    return GroupOf(**group, queue=of.name) if of else group


def waiting_for(queue: Queue, group: GroupOf, *, far: bool = False, **options: Any) -> str:
    """Enqueue the job that runs after `group` and return its id; `far` says that the group is another queue's."""
    after = After(group=group["id"], size=group["size"], far=far)
    return enqueued(queue, job_id=group["after"], extras={"after": after}, **options)[0]


def active(
    queue: Queue, number: int = 1, *, holder: str = W1, starting: int = jobs.MAX_ROWS, **options: Any
) -> list[Row]:
    """Enqueue `number` jobs into an empty queue and let `holder` claim them."""
    fresh = enqueued(queue, number, **options)
    rows = jobs.claim(queue, holder, nonce(), number, starting=starting)
    while len(rows) < number:
        rows += jobs.claim(queue, holder, nonce(), number - len(rows), starting=starting - len(rows))
    assert sorted(row.job_id for row in rows) == sorted(fresh)
    return rows


def leased(before: Row, claimed: Row, nonce: bytes, *, holder: str = W1) -> Row:
    """Return the row that a claim with `nonce` makes of one, at the time and with the fence that `claimed` has."""
    token, attempts = Token(claimed.token.fence, nonce), before.attempts + 1
    changes: dict[str, Any] = {"started": True, "attempts": attempts, "claimed_at": claimed.claimed_at, "token": token}
    return replace(before, state=State.ACTIVE, holder=holder, **changes)


def dead(queue: Queue, number: int = 1, **options: Any) -> list[Row]:
    """Let `number` jobs die of a failure, and return them as the server has them."""
    rows = active(queue, number, **options)
    jobs.die(queue, W1, [death(row) for row in rows])
    return [stored(queue, row.job_id) for row in rows]


def suspects(queue: Queue, number: int = 1, **options: Any) -> list[Row]:
    """Make jobs with a bound of two stalls suspect by one stall, and return them as the server has them."""
    rows = active(queue, number, **{"max_stalled": 2} | options)
    expire(queue, *rows)
    assert len(recover(queue).stalled) == number
    return [stored(queue, row.job_id) for row in rows]


def stored(queue: Queue, job_id: str) -> Row:
    """Return the row of a job that must be there and live."""
    row = jobs.read(queue, job_id)
    assert isinstance(row, Row), row
    return row


def expire(queue: Queue, *rows: Row) -> None:
    """Let the leases of `rows` have ended a millisecond ago, with recovery awake all the time."""
    if rows:
        now = server_ms(queue)
        queue.client.zadd(queue.keys.active, {row.job_id: now - 1 for row in rows}, xx=True)
    stay_awake(queue)


def stay_awake(queue: Queue) -> None:
    """Let recovery have passed just now, so that it sees no outage."""
    queue.client.hset(queue.keys.meta, mapping={"last_pass": server_ms(queue), "gap_at": 0, "clamp": 0})


def fill_bucket(queue: Queue, lane: str | None) -> None:
    """Let so much time have passed that the bucket of a lane, or of the queue, is full and nothing waits for it."""
    queue.client.hdel(queue.keys.limits, "bucket:" if lane is None else f"bucket:lane:{lane}")
    if lane is not None and queue.client.zscore(queue.keys.held, lane) not in (None, float("inf")):
        queue.client.zadd(queue.keys.held, {lane: server_ms(queue) - 1})


def make_due(queue: Queue, *job_ids: str) -> None:
    """Let the time of scheduled jobs have come."""
    if job_ids:
        now = server_ms(queue)
        queue.client.zadd(queue.keys.scheduled, dict.fromkeys(job_ids, now - 1), xx=True)


def server_ms(queue: Queue) -> int:
    """Return the server's clock in milliseconds."""
    seconds, microseconds = queue.client.time()
    return int(seconds) * 1000 + int(microseconds) // 1000


def tick(queue: Queue) -> None:
    """Wait for the server's next millisecond: jobs of the same one stand in the order of their ids."""
    now = server_ms(queue)
    while server_ms(queue) == now:
        pass


def completion(row: Row, ttl_ms: int = 60_000) -> Completion:
    """Return the good end of the lease that `row` shows."""
    return Completion(row.job_id, row.token, ttl_ms, RESULT)


def retry(row: Row, delay_ms: int = SOON) -> Retry:
    """Return the failed end of the lease that `row` shows."""
    return Retry(row.job_id, row.token, delay_ms, FAILURE)


def release(row: Row, delay_ms: int = 0, failure: Failure | None = None) -> Release:
    """Return the hand-back of the lease that `row` shows."""
    return Release(row.job_id, row.token, delay_ms, failure)


def death(row: Row, failures: int = 1) -> Death:
    """Return the last end of the lease that `row` shows."""
    return Death(row.job_id, row.token, FAILURE, failures)


def revival(row: Row, **changes: Any) -> Revival:
    """Return what the database would know of the death that `row` shows."""
    known = {
        "job_id": row.job_id,
        "death_key": str(row.token),
        "body": row.body,
        "lane": row.lane,
        "priority": row.priority,
        "max_stalled": row.max_stalled,
        "lease_ms": row.lease_ms,
        "attempts": row.attempts,
        "deaths": row.deaths,
        "enqueued_at": row.enqueued_at,
    }
    return Revival(**known | changes)


def lasting(row: Row) -> Extras:
    """Return the extras that a job keeps in a new life."""
    return cast(Extras, {name: row.extras[name] for name in row.extras.keys() & {"group", "isolate"}})
