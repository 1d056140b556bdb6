"""Pauses and concurrency of a queue and its lanes, and what values a limit may have."""

from collections import Counter

import pytest

from echomq_django.bus import jobs, limits
from echomq_django.bus.jobs import claim
from echomq_django.bus.limits import Limits, pause, resume
from echomq_django.bus.queue import count
from echomq_django.bus.recovery import abandon, recover
from echomq_django.bus.schedule import promote
from echomq_django.exceptions import InvalidName, InvalidOption
from tests.bus.scenes import (
    SOON,
    W1,
    W2,
    active,
    completion,
    death,
    enqueued,
    expire,
    make_due,
    new_job,
    nonce,
    release,
    retry,
    suspects,
)
from tests.bus.view import changes, view


def claimed(queue, number=200, holder=W1):
    return claim(queue, holder, nonce(), number)


def lanes_of(rows):
    return Counter(row.lane for row in rows)


def abandoned(queue, row):
    abandon(queue, row.holder, [(row.job_id, row.token.fence)])


def lost(queue, row):
    expire(queue, row)
    recover(queue)


def cancelled(queue, row):
    jobs.cancel(queue, row.job_id)
    jobs.release(queue, W1, [release(row)])


EXITS = {
    "completed": lambda queue, row: jobs.complete(queue, W1, [completion(row)]),
    "forgotten": lambda queue, row: jobs.complete(queue, W1, [completion(row, ttl_ms=0)]),
    "retried": lambda queue, row: jobs.retry(queue, W1, [retry(row)]),
    "released": lambda queue, row: jobs.release(queue, W1, [release(row, SOON)]),
    "released at once": lambda queue, row: jobs.release(queue, W1, [release(row)]),
    "died": lambda queue, row: jobs.die(queue, W1, [death(row)]),
    "recovered": lost,
    "abandoned": abandoned,
    "cancelled": cancelled,
}
each_exit = pytest.mark.parametrize("leave", EXITS.values(), ids=EXITS)


# Pauses


def test_nothing_of_a_paused_queue_starts(queue):
    (suspect,) = suspects(queue)
    enqueued(queue, 2, lane="a")
    pause(queue, by="ann", why="deploy")
    enqueued(queue, 2)
    assert claimed(queue) == []
    assert jobs.claim_alone(queue, W1, nonce()) is None
    assert resume(queue)
    assert len(claimed(queue)) == 4
    assert jobs.claim_alone(queue, W1, nonce()).job_id == suspect.job_id


def test_a_paused_queue_says_by_whom_and_why(queue):
    pause(queue, by="ann", why="deploy")
    told = limits.read(queue).paused
    assert (told["by"], told["why"]) == ("ann", "deploy")
    assert count(queue).paused == told
    resume(queue)
    assert limits.read(queue).paused is None
    assert count(queue).paused is None


def test_what_runs_in_a_paused_queue_ends_and_comes_back_as_always(queue):
    first, second, third = active(queue, 3)
    pause(queue)
    jobs.complete(queue, W1, [completion(first)])
    jobs.retry(queue, W1, [retry(second)])
    make_due(queue, second.job_id)
    assert promote(queue).count == 1
    expire(queue, third)
    assert recover(queue).stalled == [third.job_id]
    assert claimed(queue) == []
    resume(queue)
    assert len(claimed(queue)) == 2


def test_a_paused_lane_waits_and_the_others_go_on(queue):
    enqueued(queue, 2, lane="a")
    enqueued(queue, 2, lane="b")
    pause(queue, lane="a", why="broken")
    assert lanes_of(claimed(queue)) == {"b": 2}
    assert (count(queue).pending, count(queue).held) == (2, 2)
    assert limits.read(queue, lane="a").paused["why"] == "broken"
    assert resume(queue, lane="a")
    assert lanes_of(claimed(queue)) == {"a": 2}
    assert not {"held", "limits"} & view(queue).keys()


@pytest.mark.parametrize("lane", ["", "a"])
def test_jobs_that_arrive_in_a_paused_lane_wait_there(queue, lane):
    (running,) = active(queue, lane=lane)
    pause(queue, lane=lane)
    enqueued(queue, 2, lane=lane)
    make_due(queue, *enqueued(queue, lane=lane, delay_ms=SOON))
    promote(queue)
    jobs.release(queue, W1, [release(running)])
    assert claimed(queue) == []
    resume(queue, lane=lane)
    assert len(claimed(queue)) == 4


def test_a_suspect_of_a_paused_lane_waits_and_one_of_another_lane_does_not(queue):
    suspects(queue, lane="a")
    (other,) = suspects(queue, lane="b")
    pause(queue, lane="a")
    assert jobs.claim_alone(queue, W1, nonce()).job_id == other.job_id
    assert jobs.claim_alone(queue, W1, nonce()) is None
    resume(queue, lane="a")
    assert jobs.claim_alone(queue, W1, nonce()).lane == "a"


@pytest.mark.parametrize("lane", [None, "", "a"])
def test_a_pause_said_again_and_a_resume_of_what_runs_change_nothing_else(queue, lane):
    enqueued(queue, lane="a")
    assert not resume(queue, lane=lane)
    pause(queue, lane=lane)
    with changes(queue) as changed:
        pause(queue, lane=lane)
    assert changed.keys() <= {"events", "meta", "limits"}
    assert resume(queue, lane=lane)
    assert not resume(queue, lane=lane)


def test_a_lane_that_is_paused_and_discarded_empty_leaves_only_its_pause(queue):
    (job_id,) = enqueued(queue, lane="a")
    pause(queue, lane="a")
    jobs.discard(queue, job_id)
    assert not {"held", "lanes", "g:a:pending"} & view(queue).keys()
    assert limits.read(queue, lane="a").paused


def test_a_resume_wakes_a_worker(queue):
    pause(queue, lane="a")
    enqueued(queue, lane="a")
    queue.client.delete(queue.keys.wake)
    resume(queue, lane="a")
    assert queue.client.llen(queue.keys.wake) == 1


# Concurrency


def test_a_lane_never_runs_more_than_its_concurrency(queue):
    limits.set(queue, lane="a", concurrency=2)
    enqueued(queue, 5, lane="a")
    enqueued(queue, 3, lane="b")
    assert lanes_of(claimed(queue)) == {"a": 2, "b": 3}
    assert claimed(queue, holder=W2) == []


def test_a_queue_never_runs_more_than_its_concurrency(queue):
    limits.set(queue, concurrency=3)
    enqueued(queue, 4, lane="a")
    enqueued(queue, 4)
    assert len(claimed(queue)) == 3
    assert claimed(queue, holder=W2) == []


@each_exit
def test_every_exit_makes_room_in_a_lane_and_wakes_a_worker(queue, leave):
    limits.set(queue, lane="a", concurrency=1)
    first, second = enqueued(queue, 2, lane="a")
    (row,) = claimed(queue)
    assert claimed(queue) == []
    queue.client.delete(queue.keys.wake)
    leave(queue, row)
    assert queue.client.llen(queue.keys.wake) == 1
    (following,) = claimed(queue)
    assert following.job_id in (first, second)
    assert claimed(queue) == []


@each_exit
def test_every_exit_makes_room_in_a_queue_and_wakes_a_worker(queue, leave):
    limits.set(queue, concurrency=1)
    enqueued(queue, 2)
    (row,) = claimed(queue)
    queue.client.delete(queue.keys.wake)
    leave(queue, row)
    assert queue.client.llen(queue.keys.wake) == 1
    assert len(claimed(queue)) == 1


@pytest.mark.parametrize("bring_down", [lost, abandoned], ids=["recovered", "abandoned"])
def test_a_job_that_dies_of_its_stalls_makes_room_and_wakes_a_worker(queue, bring_down):
    limits.set(queue, lane="a", concurrency=1)
    enqueued(queue, 2, lane="a", max_stalled=1)
    (row,) = claimed(queue)
    assert claimed(queue) == []
    queue.client.delete(queue.keys.wake)
    bring_down(queue, row)
    assert queue.client.llen(queue.keys.wake) == 1
    assert len(claimed(queue)) == 1


def test_one_exit_makes_room_for_one_job(queue):
    limits.set(queue, lane="a", concurrency=3)
    enqueued(queue, 9, lane="a")
    first, *_ = claimed(queue)
    claimed(queue)
    jobs.complete(queue, W1, [completion(first)])
    jobs.complete(queue, W1, [completion(first)])
    assert len(claimed(queue)) == 1


def test_a_stale_end_makes_no_room(queue):
    limits.set(queue, lane="a", concurrency=1)
    enqueued(queue, 2, lane="a", max_stalled=None)
    (old,) = claimed(queue)
    lost(queue, old)
    claimed(queue, holder=W2)
    assert jobs.complete(queue, W1, [completion(old)]) == [0]
    assert claimed(queue) == []


def test_a_suspect_counts_and_waits_for_room_in_its_lane(queue):
    (suspect,) = suspects(queue, lane="a")
    limits.set(queue, lane="a", concurrency=1)
    enqueued(queue, 2, lane="a")
    (row,) = claimed(queue)
    assert jobs.claim_alone(queue, W2, nonce()) is None
    jobs.complete(queue, W1, [completion(row)])
    assert jobs.claim_alone(queue, W2, nonce()).job_id == suspect.job_id
    assert claimed(queue) == []


def test_a_suspect_waits_for_room_in_the_queue(queue):
    suspects(queue)
    limits.set(queue, concurrency=1)
    (row,) = active(queue)
    assert jobs.claim_alone(queue, W2, nonce()) is None
    jobs.complete(queue, W1, [completion(row)])
    assert jobs.claim_alone(queue, W2, nonce())
    enqueued(queue)
    assert claimed(queue) == []


@pytest.mark.parametrize("new", [{"concurrency": 2}, {}], ids=["raised", "dropped"])
def test_a_loosened_limit_holds_at_once(queue, new):
    limits.set(queue, lane="a", concurrency=1)
    enqueued(queue, 2, lane="a")
    claimed(queue)
    assert claimed(queue) == []
    limits.set(queue, lane="a", **new)
    assert len(claimed(queue)) == 1


def test_a_tightened_limit_lets_nothing_start_until_enough_has_ended(queue):
    limits.set(queue, lane="a", concurrency=3)
    enqueued(queue, 5, lane="a")
    rows = claimed(queue)
    limits.set(queue, lane="a", concurrency=1)
    found = []
    for row in rows:
        found.append(len(claimed(queue)))
        jobs.complete(queue, W1, [completion(row)])
    assert found == [0, 0, 0]
    assert len(claimed(queue)) == 1


def test_a_limit_set_on_a_paused_lane_does_not_resume_it(queue):
    enqueued(queue, lane="a")
    pause(queue, lane="a")
    limits.set(queue, lane="a", concurrency=5)
    assert claimed(queue) == []
    limits.set(queue, lane="a")
    assert claimed(queue) == []
    resume(queue, lane="a")
    assert len(claimed(queue)) == 1


def test_a_lane_at_its_limit_that_is_paused_and_resumed_keeps_its_limit(queue):
    limits.set(queue, lane="a", concurrency=1)
    enqueued(queue, 3, lane="a")
    (row,) = claimed(queue)
    pause(queue, lane="a")
    jobs.complete(queue, W1, [completion(row)])
    assert claimed(queue) == []
    resume(queue, lane="a")
    assert len(claimed(queue)) == 1
    assert claimed(queue) == []


def test_a_lane_that_empties_leaves_no_key_but_its_limits(queue):
    limits.set(queue, lane="a", concurrency=1, rate="5/h")
    enqueued(queue, 2, lane="a")
    for _ in range(2):
        jobs.complete(queue, W1, [completion(row, ttl_ms=0) for row in claimed(queue)])
    assert view(queue).keys() == {"limits", "meta", "wake", "ttl"}


def test_dropping_the_last_limit_leaves_no_key(queue):
    limits.set(queue, lane="a", concurrency=1, rate="5/h", weight=3)
    limits.set(queue, concurrency=1, rate="5/h")
    enqueued(queue, 2, lane="a")
    row, *_ = claimed(queue)
    limits.set(queue, lane="a")
    limits.set(queue)
    assert not {"limits", "held", "g:a:running"} & view(queue).keys()
    assert len(claimed(queue)) == 1
    jobs.complete(queue, W1, [completion(row)])


@pytest.mark.broken_keyspace
def test_what_counts_as_running_and_is_not_is_found_out_by_the_next_promotion(queue):
    limits.set(queue, lane="a", concurrency=1)
    (job_id,) = enqueued(queue, lane="a")
    queue.client.sadd(queue.keys.base + "g:a:running", new_job(queue).job_id)
    assert claimed(queue) == []
    queue.client.delete(queue.keys.wake)
    promote(queue)
    assert queue.client.llen(queue.keys.wake) == 1
    assert [row.job_id for row in claimed(queue)] == [job_id]


@pytest.mark.broken_keyspace
def test_what_counts_as_running_and_is_not_is_found_out_in_every_lane_in_its_turn(queue):
    lanes = [f"lane-{number}" for number in range(1500)]
    ghosts = [f"{queue.keys.base}g:{lane}:running" for lane in lanes]
    for lane, ghost in zip(lanes, ghosts, strict=True):
        limits.set(queue, lane=lane, concurrency=5)
        queue.client.sadd(ghost, new_job(queue).job_id)
    for _ in range(25):
        promote(queue)
    assert queue.client.exists(*ghosts) == 0


def test_what_runs_still_counts_after_a_promotion(queue):
    limits.set(queue, lane="a", concurrency=1)
    enqueued(queue, 2, lane="a")
    claimed(queue)
    claimed(queue)
    assert promote(queue).next_due_ms is None
    assert claimed(queue) == []


# Values


@pytest.mark.parametrize("lane", [None, "", "a", "lane:a", ":", "Zoë"])
def test_limits_are_read_as_they_were_set(queue, lane):
    assert limits.read(queue, lane=lane) == Limits()
    values = {"concurrency": 4, "rate": "100/m"} | ({} if lane is None else {"weight": 7})
    limits.set(queue, lane=lane, **values)
    assert limits.read(queue, lane=lane) == Limits(**values)
    others = {None, "", "a", "lane:a", ":"} - {lane}
    assert {limits.read(queue, lane=other) for other in others} == {Limits()}
    limits.set(queue, lane=lane)
    assert limits.read(queue, lane=lane) == Limits()
    assert "limits" not in view(queue)


@pytest.mark.parametrize("rate", ["10/s", "100/m", "5/h", "3/20s"])
def test_a_rate_is_read_as_it_was_written(queue, rate):
    limits.set(queue, rate=rate)
    assert limits.read(queue).rate == rate


@pytest.mark.parametrize(
    "bad",
    [
        {"concurrency": 0},
        {"concurrency": True},
        {"concurrency": 1.5},
        {"weight": 0},
        {"weight": 101},
        {"concurrency": 1_000_001},
        {"rate": "10"},
        {"rate": "0/s"},
        {"rate": "10/d"},
        {"rate": "10/s\n"},
        {"rate": "1000001/s"},
        {"rate": 10},
    ],
    ids=str,
)
def test_a_bad_value_is_refused_and_nothing_is_written(queue, bad):
    with changes(queue) as changed, pytest.raises(InvalidOption, match=next(iter(bad))):
        limits.set(queue, lane="a", **bad)
    assert changed == {}


@pytest.mark.parametrize("call", [limits.set, limits.pause, limits.resume, limits.read])
def test_a_bad_lane_is_refused(queue, call):
    with pytest.raises(InvalidName):
        call(queue, lane="a\n")
