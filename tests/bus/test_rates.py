"""Rates and weights. No test waits for a rate: it moves the bucket's clock instead."""

from collections import Counter

from echomq_django.bus import jobs, limits
from echomq_django.bus.jobs import claim
from echomq_django.bus.limits import pause, resume
from echomq_django.bus.schedule import promote
from tests.bus.scenes import (
    W1,
    completion,
    enqueued,
    nonce,
    server_ms,
)


def claimed(queue, number=200, holder=W1):
    return claim(queue, holder, nonce(), number)


def lanes_of(rows):
    return Counter(row.lane for row in rows)


def fill_bucket(queue, name):
    """Let so much time have passed that the bucket is full."""
    tokens = queue.client.hget(queue.keys.limits, f"bucket:{name}").decode().partition(":")[0]
    queue.client.hset(queue.keys.limits, f"bucket:{name}", f"{tokens}:{server_ms(queue) - 86_400_000}")
    if queue.client.exists(queue.keys.held):
        held = queue.client.zrange(queue.keys.held, 0, -1)
        queue.client.zadd(queue.keys.held, dict.fromkeys(held, server_ms(queue) - 1))


def test_a_lane_starts_no_more_than_its_rate_allows(queue):
    limits.set(queue, lane="a", rate="3/h")
    enqueued(queue, 8, lane="a")
    enqueued(queue, 2, lane="b")
    assert lanes_of(claimed(queue)) == {"a": 3, "b": 2}
    assert claimed(queue) == []


def test_a_lane_that_waits_for_its_rate_comes_back_by_promotion(queue):
    limits.set(queue, lane="a", rate="3/h")
    enqueued(queue, 8, lane="a")
    claimed(queue)
    claimed(queue)
    assert 0 < promote(queue).next_due_ms <= 3_600_000 / 3
    fill_bucket(queue, "lane:a")
    queue.client.delete(queue.keys.wake)
    promote(queue)
    assert queue.client.llen(queue.keys.wake) == 1
    assert len(claimed(queue)) == 3
    assert claimed(queue) == []


def test_an_end_gives_no_token_back(queue):
    limits.set(queue, lane="a", rate="1/h")
    enqueued(queue, 2, lane="a")
    (row,) = claimed(queue)
    claimed(queue)
    jobs.complete(queue, W1, [completion(row)])
    promote(queue)
    assert claimed(queue) == []


def test_a_queue_starts_no_more_than_its_rate_allows(queue):
    limits.set(queue, rate="3/h")
    enqueued(queue, 4, lane="a")
    enqueued(queue, 4)
    assert len(claimed(queue)) == 3
    assert claimed(queue) == []
    assert 0 < promote(queue).next_due_ms <= 3_600_000 / 3
    fill_bucket(queue, "")
    assert len(claimed(queue)) == 3


def test_a_bucket_never_holds_more_than_its_rate_says(queue):
    limits.set(queue, rate="2/s")
    queue.client.hset(queue.keys.limits, "bucket:", f"0:{server_ms(queue) - 86_400_000}")
    enqueued(queue, 9)
    assert len(claimed(queue)) == 2


def test_a_clock_that_stepped_back_takes_no_tokens(queue):
    limits.set(queue, rate="2/h")
    queue.client.hset(queue.keys.limits, "bucket:", f"1:{server_ms(queue) + 86_400_000}")
    enqueued(queue, 9)
    assert len(claimed(queue)) == 1


def test_a_new_rate_starts_with_a_full_bucket(queue):
    limits.set(queue, lane="a", rate="1/h")
    enqueued(queue, 9, lane="a")
    claimed(queue)
    claimed(queue)
    limits.set(queue, lane="a", rate="2/h")
    assert len(claimed(queue)) == 2


def test_a_lane_that_waits_for_its_rate_and_is_paused_does_not_come_back_by_promotion(queue):
    limits.set(queue, lane="a", rate="1/h")
    enqueued(queue, 2, lane="a")
    claimed(queue)
    claimed(queue)
    pause(queue, lane="a")
    queue.client.hdel(queue.keys.limits, "bucket:lane:a")
    assert promote(queue).next_due_ms is None
    assert claimed(queue) == []
    resume(queue, lane="a")
    assert len(claimed(queue)) == 1


def test_the_tightest_of_all_limits_holds(queue):
    limits.set(queue, concurrency=5, rate="9/h")
    limits.set(queue, lane="a", concurrency=4, rate="2/h")
    limits.set(queue, lane="b", concurrency=1)
    enqueued(queue, 9, lane="a")
    enqueued(queue, 9, lane="b")
    enqueued(queue, 9)
    rows = [row for _ in range(9) for row in claimed(queue, 2)]
    assert lanes_of(rows) == {"a": 2, "b": 1, "": 2}


# Weights


def test_a_batch_is_shared_by_weight(queue):
    limits.set(queue, lane="a", weight=3)
    enqueued(queue, 20, lane="a")
    enqueued(queue, 20, lane="b")
    assert lanes_of(claimed(queue, 8)) == {"a": 6, "b": 2}


def test_what_a_heavy_lane_can_not_use_goes_to_the_others(queue):
    limits.set(queue, lane="a", weight=9, concurrency=1)
    enqueued(queue, 20, lane="a")
    enqueued(queue, 20, lane="b")
    assert lanes_of(claimed(queue, 10)) == {"a": 1, "b": 9}


def test_a_light_lane_is_not_starved(queue):
    limits.set(queue, lane="a", weight=1000)
    enqueued(queue, 50, lane="a")
    enqueued(queue, 1, lane="b")
    assert "b" in lanes_of([row for _ in range(3) for row in claimed(queue, 4)])
