"""The law of the keyspace must notice each way to break it, and name the job."""

from collections.abc import Callable

import pytest

from echomq_django.bus import jobs, limits
from echomq_django.bus.queue import Queue
from tests.bus.scenes import (
    LEASE,
    SOON,
    W1,
    W2,
    a_group,
    active,
    completion,
    dead,
    enqueued,
    nonce,
    server_ms,
    suspects,
    unique,
    waiting_for,
)
from tests.invariants import check

pytestmark = pytest.mark.broken_keyspace

Break = Callable[[Queue], tuple[str, str]]  # returns the id (or name) and what must be said of it


def _row_lost(queue: Queue) -> tuple[str, str]:
    (job_id,) = enqueued(queue)
    queue.client.delete(queue.keys.job(job_id))
    return job_id, "is in pending but has no row"


def _in_no_place(queue: Queue) -> tuple[str, str]:
    (job_id,) = enqueued(queue)
    queue.client.delete(queue.keys.pending, queue.keys.lanes)
    return job_id, "is PENDING and belongs in pending, but is in none"


def _in_two_places(queue: Queue) -> tuple[str, str]:
    (job_id,) = enqueued(queue)
    queue.client.zadd(queue.keys.scheduled, {job_id: 1})
    return job_id, "is PENDING and belongs in pending, but is in pending and scheduled"


def _in_the_wrong_lane(queue: Queue) -> tuple[str, str]:
    (job_id,) = enqueued(queue, lane="a")
    queue.client.rename(queue.keys.lane("a"), queue.keys.lane("b"))
    return job_id, "belongs in g:a:pending, but is in g:b:pending"


def _in_the_wrong_state(queue: Queue) -> tuple[str, str]:
    (row,) = dead(queue)
    queue.client.rename(queue.keys.dead, queue.keys.suspect)
    return row.job_id, "is DEAD and belongs in dead, but is in suspect"


def _live_row_that_expires(queue: Queue) -> tuple[str, str]:
    (row,) = active(queue)
    queue.client.pexpire(queue.keys.job(row.job_id), SOON)
    return row.job_id, "is ACTIVE and would vanish in"


def _done_row_that_stays(queue: Queue) -> tuple[str, str]:
    (row,) = active(queue)
    jobs.complete(queue, W1, [completion(row)])
    queue.client.persist(queue.keys.job(row.job_id))
    return row.job_id, "is done and would stay for ever"


def _done_row_in_a_place(queue: Queue) -> tuple[str, str]:
    (row,) = active(queue)
    jobs.complete(queue, W1, [completion(row)])
    queue.client.zadd(queue.keys.active, {row.job_id: server_ms(queue)})
    return row.job_id, "is done, and still in active"


def _hand_without_the_job(queue: Queue) -> tuple[str, str]:
    (row,) = active(queue)
    queue.client.delete(queue.keys.hand(W1))
    return row.job_id, f"is held by {W1}, whose hand lacks it"


def _hand_of_another(queue: Queue) -> tuple[str, str]:
    (row,) = active(queue)
    queue.client.sadd(queue.keys.hand(W2), row.job_id)
    return row.job_id, f"is in the hand of {W2}, and no active row says so"


def _lane_without_a_turn(queue: Queue) -> tuple[str, str]:
    (job_id,) = enqueued(queue, lane="a")
    queue.client.delete(queue.keys.lanes)
    return "lane 'a'", f"has 1 jobs and no turn: {job_id}"


def _turn_without_a_lane(queue: Queue) -> tuple[str, str]:
    queue.client.zadd(queue.keys.lanes, {"a": 1})
    return "lane 'a'", "has a turn and no jobs"


def _isolated_in_a_lane(queue: Queue) -> tuple[str, str]:
    (job_id,) = enqueued(queue, extras={"isolate": True})
    queue.client.rename(queue.keys.base + "g::isolated", queue.keys.pending)
    return job_id, "is PENDING and belongs in g::isolated, but is in pending"


def _isolated_without_a_turn(queue: Queue) -> tuple[str, str]:
    enqueued(queue, lane="a", extras={"isolate": True})
    queue.client.delete(queue.keys.isolated)
    return "lane 'a'", "has isolated jobs and no turn, or the other way round"


def _two_wake_ups(queue: Queue) -> tuple[str, str]:
    queue.client.rpush(queue.keys.wake, 1, 1)
    return "wake", "holds 2 wake-ups, not one"


def _score_that_is_not_the_order(queue: Queue) -> tuple[str, str]:
    (job_id,) = enqueued(queue)
    queue.client.zadd(queue.keys.pending, {job_id: 5})
    return job_id, "in pending the score 5"


def _suspect_out_of_order(queue: Queue) -> tuple[str, str]:
    (row,) = suspects(queue)
    queue.client.zadd(queue.keys.suspect, {row.job_id: 5})
    return row.job_id, "in suspect the score 5"


def _lease_that_is_too_long(queue: Queue) -> tuple[str, str]:
    (row,) = active(queue)
    queue.client.zadd(queue.keys.active, {row.job_id: server_ms(queue) + LEASE + 5000})
    return row.job_id, "has a lease of 30000 ms that ends in 3"


def _lease_that_never_was(queue: Queue) -> tuple[str, str]:
    (row,) = active(queue)
    queue.client.zadd(queue.keys.active, {row.job_id: 0})
    return row.job_id, "has a lease of 30000 ms that ends in -"


def _row_that_can_not_be_read(queue: Queue) -> tuple[str, str]:
    (job_id,) = enqueued(queue)
    queue.client.set(queue.keys.job(job_id), b"\7")
    return job_id, "has a row that can't be read: "


def _row_of_another_type(queue: Queue) -> tuple[str, str]:
    (job_id,) = enqueued(queue)
    queue.client.delete(queue.keys.job(job_id))
    queue.client.hset(queue.keys.job(job_id), "a", "b")
    return job_id, "has a row that can't be read: it is a hash"


def _key_that_nobody_knows(queue: Queue) -> tuple[str, str]:
    queue.client.set(queue.keys.base + "stray", 1)
    return "stray", "is no key of a queue"


def _key_of_another_type(queue: Queue) -> tuple[str, str]:
    queue.client.set(queue.keys.dead, 1)
    return "dead", "is a string, not a zset"


def _key_that_expires(queue: Queue) -> tuple[str, str]:
    queue.client.pexpire(queue.keys.meta, SOON)
    return "meta", "will expire in"


def _alias_that_stays(queue: Queue) -> tuple[str, str]:
    enqueued(queue, extras=unique())
    (job_id,) = enqueued(queue, extras=unique())
    queue.client.persist(queue.keys.job(job_id))
    return job_id, "is an alias and would stay for ever"


def _alias_in_a_place(queue: Queue) -> tuple[str, str]:
    enqueued(queue, extras=unique())
    (job_id,) = enqueued(queue, extras=unique())
    queue.client.zadd(queue.keys.dead, {job_id: 1})
    return job_id, "is an alias, and still in dead"


def _lock_that_stays(queue: Queue) -> tuple[str, str]:
    enqueued(queue, extras=unique())
    queue.client.persist(queue.keys.base + "unique:k")
    return "unique:k", "would stay for ever"


def _lock_of_a_dead_job(queue: Queue) -> tuple[str, str]:
    (row,) = dead(queue)
    queue.client.set(queue.keys.base + "unique:k", row.job_id, ex=90 * 86_400)
    return "unique:k", f"is held by {row.job_id}, which does not live"


def _lane_in_the_ring_and_held(queue: Queue) -> tuple[str, str]:
    enqueued(queue, lane="a")
    queue.client.zadd(queue.keys.held, {"a": 1})
    return "lane 'a'", "has a turn and is held"


def _held_lane_without_jobs(queue: Queue) -> tuple[str, str]:
    queue.client.zadd(queue.keys.held, {"a": 1})
    return "lane 'a'", "has a turn and no jobs"


def _paused_lane_in_the_ring(queue: Queue) -> tuple[str, str]:
    limits.pause(queue, lane="a")
    enqueued(queue, lane="a")
    queue.client.rename(queue.keys.held, queue.keys.lanes)
    return "lane 'a'", "has a turn and is paused"


def _limits_that_nobody_looks_at(queue: Queue) -> tuple[str, str]:
    limits.set(queue, concurrency=1)
    queue.client.hdel(queue.keys.meta, "flow")
    return "meta", "lacks flow, with 1 limits"


def _bucket_without_a_rate(queue: Queue) -> tuple[str, str]:
    limits.set(queue, concurrency=1)
    queue.client.hset(queue.keys.limits, "bucket:", "1:1")
    return "limits", "has bucket: and no rate for it"


def _running_and_not_active(queue: Queue) -> tuple[str, str]:
    limits.set(queue, lane="a", concurrency=1)
    (job_id,) = enqueued(queue, lane="a")
    queue.client.sadd(queue.keys.base + "g:a:running", job_id)
    return job_id, "counts as running in lane 'a', and is not active there"


def _running_without_a_limit(queue: Queue) -> tuple[str, str]:
    limits.set(queue, lane="a", concurrency=1)
    active(queue, lane="a")
    queue.client.hdel(queue.keys.limits, "concurrency:a")
    return "lane 'a'", "counts what runs and has no limit"


def _group_that_stays(queue: Queue) -> tuple[str, str]:
    queue.client.sadd(queue.keys.base + "group:g", "x")
    return "group:g", "would stay for ever"


def _log_that_stays(queue: Queue) -> tuple[str, str]:
    queue.client.rpush(queue.keys.base + "log:j", "x")
    return "log:j", "would stay for ever"


def _scheduled_for_no_time(queue: Queue) -> tuple[str, str]:
    (job_id,) = enqueued(queue, delay_ms=SOON)
    queue.client.zadd(queue.keys.scheduled, {job_id: "inf"})
    return job_id, "is scheduled for no time and waits for no group"


def _waiting_for_a_group_that_is_over(queue: Queue) -> tuple[str, str]:
    group = a_group(queue, 1)
    job_id = waiting_for(queue, group)
    queue.client.sadd(queue.keys.group(group["id"]), "x")
    return job_id, "still waits for a group that is over"


BREAKS: list[Break] = [
    _row_lost,
    _in_no_place,
    _in_two_places,
    _in_the_wrong_lane,
    _in_the_wrong_state,
    _live_row_that_expires,
    _done_row_that_stays,
    _done_row_in_a_place,
    _hand_without_the_job,
    _hand_of_another,
    _lane_without_a_turn,
    _turn_without_a_lane,
    _isolated_in_a_lane,
    _isolated_without_a_turn,
    _two_wake_ups,
    _score_that_is_not_the_order,
    _suspect_out_of_order,
    _lease_that_is_too_long,
    _lease_that_never_was,
    _row_that_can_not_be_read,
    _row_of_another_type,
    _key_that_nobody_knows,
    _key_of_another_type,
    _key_that_expires,
    _alias_that_stays,
    _alias_in_a_place,
    _lock_that_stays,
    _lock_of_a_dead_job,
    _lane_in_the_ring_and_held,
    _held_lane_without_jobs,
    _paused_lane_in_the_ring,
    _limits_that_nobody_looks_at,
    _bucket_without_a_rate,
    _running_and_not_active,
    _running_without_a_limit,
    _group_that_stays,
    _log_that_stays,
    _scheduled_for_no_time,
    _waiting_for_a_group_that_is_over,
]


@pytest.mark.parametrize("damage", BREAKS, ids=lambda damage: damage.__name__)
def test_a_broken_keyspace_is_found_out_and_the_culprit_named(queue, damage):
    culprit, said = damage(queue)
    with pytest.raises(AssertionError) as caught:
        check(queue.client, queue.keys.prefix)
    assert [line for line in str(caught.value).splitlines() if line.startswith(f"mail: {culprit} ") and said in line]


def test_a_keyspace_with_a_job_in_each_place_is_sound(queue):
    suspects(queue, 2)
    dead(queue, 2)
    done, *_ = active(queue, 3)
    jobs.complete(queue, W1, [completion(done)])
    enqueued(queue, 2)
    enqueued(queue, 2, lane="a")
    enqueued(queue, 2, delay_ms=SOON)
    enqueued(queue, 2, extras=unique())
    enqueued(queue, 2, lane="a", extras={"isolate": True})
    waiting_for(queue, a_group(queue, 1))
    limits.set(queue, lane="b", concurrency=1)
    limits.pause(queue, lane="a")
    enqueued(queue, 2, lane="b")
    assert jobs.claim(queue, W1, nonce(), 10)
    check(queue.client, queue.keys.prefix)


def test_other_prefixes_are_not_looked_at(queue):
    _in_no_place(queue)
    check(queue.client, queue.keys.prefix[:-1])
    check(queue.client, queue.keys.prefix + "x")
