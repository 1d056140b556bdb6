from collections import Counter

import pytest

from echomq_django.bus import jobs
from echomq_django.bus.jobs import claim
from echomq_django.bus.recovery import recover
from echomq_django.bus.schedule import promote
from tests.bus.scenes import W1, active, enqueued, expire, make_due, nonce, release, retry
from tests.bus.view import changes


def lanes_of(rows):
    return [row.lane for row in rows]


def drained(queue, number):
    """The lanes of all jobs in the order of their claims, `number` a claim."""
    order = []
    while rows := claim(queue, W1, nonce(), number):
        order += lanes_of(rows)
    return order


def test_two_lanes_take_turns(queue):
    enqueued(queue, 4, lane="a")
    enqueued(queue, 2, lane="b")
    assert drained(queue, 1) == ["a", "b", "a", "b", "a", "a"]


def test_a_job_without_a_lane_takes_its_turn_too(queue):
    enqueued(queue, 3, lane="a")
    enqueued(queue, 3)
    assert drained(queue, 1) == ["a", "", "a", "", "a", ""]


def test_a_batch_is_shared_by_all_lanes_that_are_ready(queue):
    for lane in "abc":
        enqueued(queue, 5, lane=lane)
    assert Counter(lanes_of(claim(queue, W1, nonce(), 7))) == {"a": 3, "b": 2, "c": 2}


def test_what_a_short_lane_leaves_goes_to_those_behind_it(queue):
    enqueued(queue, 1, lane="short")
    enqueued(queue, 20, lane="long")
    assert Counter(lanes_of(claim(queue, W1, nonce(), 10))) == {"short": 1, "long": 9}


def test_ten_lanes_are_each_served_once_in_ten_claims(queue):
    for lane in range(10):
        enqueued(queue, 3, lane=f"lane-{lane}")
    order = drained(queue, 1)
    assert [set(order[at : at + 10]) for at in (0, 10, 20)] == [{f"lane-{lane}" for lane in range(10)}] * 3


def test_ten_thousand_jobs_of_one_lane_hold_nobody_up(queue):
    enqueued(queue, 10_000, lane="giant")
    for lane in "bcde":
        enqueued(queue, 1, lane=lane)
    assert set(lanes_of(claim(queue, W1, nonce(), 5))) == {"giant", "b", "c", "d", "e"}
    enqueued(queue, 1, lane="late")
    assert "late" in lanes_of([row for _ in range(2) for row in claim(queue, W1, nonce(), 1)])


def test_more_lanes_than_a_batch_has_room_for_are_served_in_turn(queue):
    for lane in range(30):
        enqueued(queue, 2, lane=f"lane-{lane:02}")
    seen = [lanes_of(claim(queue, W1, nonce(), 10)) for _ in range(6)]
    first_round = [lane for batch in seen[:3] for lane in batch]
    assert len(set(first_round)) == 30
    assert first_round == [lane for batch in seen[3:] for lane in batch]


def test_a_lane_joins_behind_those_that_wait(queue):
    enqueued(queue, 9, lane="a")
    enqueued(queue, 9, lane="b")
    claim(queue, W1, nonce(), 1)
    enqueued(queue, 9, lane="c")
    assert drained(queue, 1)[:4] == ["b", "a", "c", "b"]


def test_a_lane_without_work_leaves_no_key(queue):
    enqueued(queue, 1, lane="a")
    with changes(queue) as changed:
        claim(queue, W1, nonce(), 1)
    assert (changed["g:a:pending"], changed["lanes"]) == (None, None)


def test_a_lane_that_vanished_leaves_the_ring(queue):
    enqueued(queue, 1, lane="a")
    ghost = queue.client.zrange(queue.keys.lane("a"), 0, -1)
    queue.client.delete(queue.keys.lane("a"), *(queue.keys.job(job_id.decode()) for job_id in ghost))
    enqueued(queue, 1, lane="b")
    found = [claim(queue, W1, nonce(), 1) for _ in range(2)]
    assert [lanes_of(rows) for rows in found] == [[], ["b"]]


@pytest.mark.parametrize("way", ["recovered", "released", "released later", "retried"])
def test_a_job_comes_back_to_its_own_lane(queue, way):
    (row,) = active(queue, lane="a")
    enqueued(queue, 2)
    if way == "recovered":
        expire(queue, row)
        recover(queue)
    elif way == "released":
        jobs.release(queue, W1, [release(row)])
    else:
        jobs.retry(queue, W1, [retry(row)]) if way == "retried" else jobs.release(queue, W1, [release(row, 5000)])
        make_due(queue, row.job_id)
        promote(queue)
    assert drained(queue, 1) == ["", "a", ""]


def test_a_claim_that_a_large_job_cuts_short_leaves_the_turns_of_the_others(queue):
    for lane in "abc":
        enqueued(queue, 2, lane=lane, body=bytes(600_000))
    assert lanes_of(claim(queue, W1, nonce(), 3)) == ["a", "b"]
    assert drained(queue, 1) == ["c", "a", "b", "c"]


def test_a_lane_named_like_a_key_meets_no_other_key(queue):
    enqueued(queue)
    for lane in ("pending", "lanes", "x:pending", "{mail}", "*", " "):
        enqueued(queue, 2, lane=lane)
    assert len(drained(queue, 3)) == 13
