"""Rates and weights. No test waits for a rate: it moves the bucket's clock instead."""

from collections import Counter

import pytest

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
    suspects,
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


@pytest.mark.parametrize("lane", [None, "a"], ids=["queue", "lane"])
def test_a_suspect_that_starts_takes_a_token(queue, lane):
    suspects(queue, 2, lane="a")
    enqueued(queue, 2, lane="a")
    limits.set(queue, lane=lane, rate="2/h")
    assert jobs.claim_alone(queue, W1, nonce())
    assert len(claimed(queue)) == 1
    assert jobs.claim_alone(queue, W1, nonce()) is None


# Weights


@pytest.mark.parametrize("number", [1, 3, 8, 50])
def test_lanes_are_served_in_proportion_to_their_weights_whatever_the_size_of_a_claim(queue, number):
    limits.set(queue, lane="a", weight=5)
    limits.set(queue, lane="b", weight=2)
    for lane in ("a", "b", "c"):
        enqueued(queue, 420, lane=lane)
    served = [row.lane for _ in range(400 // number) for row in claimed(queue, number)]
    for turn in range(0, len(served) - 7, 8):
        assert Counter(served[turn : turn + 8]) == {"a": 5, "b": 2, "c": 1}


@pytest.mark.parametrize("number", [1, 2, 7])
def test_equal_lanes_get_equally_much_whatever_the_size_of_a_claim(queue, number):
    for lane in ("a", "b", "c"):
        enqueued(queue, 80, lane=lane)
    served = lanes_of([row for _ in range(210 // number) for row in claimed(queue, number)])
    assert served == {"a": 70, "b": 70, "c": 70}


@pytest.mark.parametrize("number", [1, 8])
def test_a_light_lane_waits_for_no_more_jobs_than_all_others_weigh(queue, number):
    limits.set(queue, lane="a", weight=100)
    limits.set(queue, lane="b", weight=10)
    enqueued(queue, 300, lane="a")
    enqueued(queue, 300, lane="b")
    claimed(queue, 40)
    enqueued(queue, 1, lane="light")
    served = [row.lane for _ in range(120 // number) for row in claimed(queue, number)]
    assert served.index("light") <= 110


def test_a_lane_whose_weight_is_dropped_in_its_turn_is_served_and_goes_behind_the_others(queue):
    limits.set(queue, lane="a", weight=4)
    enqueued(queue, 20, lane="a")
    enqueued(queue, 20, lane="b")
    claimed(queue, 3)
    limits.set(queue, lane="a")
    assert [row.lane for _ in range(4) for row in claimed(queue, 1)] == ["a", "b", "a", "b"]


def test_a_lane_that_joins_behind_one_in_the_middle_of_its_turn_has_a_whole_turn(queue):
    for lane in ("b", "c"):
        limits.set(queue, lane=lane, weight=4)
    enqueued(queue, lane="a")
    enqueued(queue, 20, lane="b")
    claimed(queue, 2)
    enqueued(queue, 20, lane="c")
    assert [row.lane for row in claimed(queue, 10)] == ["b"] * 3 + ["c"] * 4 + ["b"] * 3


def test_what_a_heavy_lane_can_not_use_goes_to_the_others(queue):
    limits.set(queue, lane="a", weight=9, concurrency=1)
    enqueued(queue, 20, lane="a")
    enqueued(queue, 20, lane="b")
    assert lanes_of(claimed(queue, 10)) == {"a": 1, "b": 9}


def test_what_lanes_behind_a_lane_leave_comes_back_to_it(queue):
    enqueued(queue, 20, lane="a")
    enqueued(queue, 1, lane="b")
    assert lanes_of(claimed(queue, 10)) == {"a": 9, "b": 1}
