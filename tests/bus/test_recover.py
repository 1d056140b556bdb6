from dataclasses import replace

import pytest

from echomq_django.bus import jobs, limits
from echomq_django.bus.jobs import claim
from echomq_django.bus.recovery import Recovered, abandon, recover
from echomq_django.bus.row import Failure, State
from echomq_django.bus.schedule import promote
from tests.bus.scenes import (
    FAILURE,
    SOON,
    W1,
    W2,
    a_group,
    active,
    enqueued,
    expire,
    make_due,
    new_job,
    nonce,
    retry,
    stay_awake,
    stored,
    waiting_for,
)
from tests.bus.view import changes

NOTHING = Recovered([], [], [], [])


def stall(queue, row):
    """Let the lease of `row` expire and claim the job again, also if it has to run alone."""
    expire(queue, row)
    assert recover(queue).stalled == [row.job_id]
    return next(iter(claim(queue, W1, nonce(), 1)), None) or jobs.claim_alone(queue, W1, nonce())


@pytest.mark.parametrize("lane", ["", "a"])
def test_a_started_job_whose_lease_expired_comes_back_with_a_stall(queue, lane):
    (row,) = active(queue, lane=lane)
    expire(queue, row)
    queue.client.delete(queue.keys.wake)
    with changes(queue) as changed:
        assert recover(queue) == replace(NOTHING, stalled=[row.job_id])
    changed.pop("meta", None)
    assert changed == {
        "active": None,
        f"hand:{W1}": None,
        f"g:{lane}:pending" if lane else "pending": {row.job_id: row.order},
        "lanes": {lane: 1},
        "wake": [b"1"],
        "events": [("stalled", row.job_id, W1)],
        f"job:{row.job_id}": replace(
            row, state=State.PENDING, started=False, stalled=1, token=row.token._replace(nonce=bytes(8))
        ),
    }


def test_a_job_that_had_not_started_comes_back_without_a_stall(queue):
    (row,) = active(queue, starting=0)
    expire(queue, row)
    with changes(queue) as changed:
        assert recover(queue) == replace(NOTHING, unstarted=[row.job_id])
    assert changed["events"] == [("unstarted", row.job_id, W1)]
    assert changed[f"job:{row.job_id}"].stalled == 0
    assert changed["pending"] == {row.job_id: row.order}


def test_a_second_pass_finds_nothing_to_do(queue):
    (row,) = active(queue)
    expire(queue, row)
    recover(queue)
    with changes(queue) as changed:
        assert recover(queue) == NOTHING
    assert changed.keys() <= {"meta"}


def test_a_live_lease_is_left_alone(queue):
    old, live = active(queue, 2)
    expire(queue, old)
    with changes(queue) as changed:
        recover(queue)
    assert changed["active"].keys() == {live.job_id}
    assert changed[f"hand:{W1}"] == {live.job_id}
    assert f"job:{live.job_id}" not in changed


@pytest.mark.parametrize("bound", [1, 2, 3, 4, 7])
def test_a_job_that_always_stalls_dies_at_exactly_its_bound(queue, bound):
    (row,) = active(queue, max_stalled=bound)
    for _ in range(bound - 1):
        row = stall(queue, row)
    expire(queue, row)
    with changes(queue) as changed:
        assert recover(queue) == replace(NOTHING, died=[row.job_id], deaths=1)
    corpse = stored(queue, row.job_id)
    assert (corpse.state, corpse.stalled, corpse.deaths, corpse.attempts) == (State.DEAD, bound, 1, bound)
    assert corpse.failure == Failure("stalled")
    assert changed["events"] == [("died", row.job_id, "stalled")]
    assert changed.keys() - {"meta"} == {"active", f"hand:{W1}", "dead", "events", f"job:{row.job_id}"}


def test_a_job_with_a_bound_of_none_at_all_dies_of_its_first_stall(queue):
    (row,) = active(queue, max_stalled=0)
    expire(queue, row)
    assert recover(queue).died == [row.job_id]


def test_a_job_without_a_bound_always_comes_back(queue):
    (row,) = active(queue, max_stalled=None)
    for _ in range(20):
        row = stall(queue, row)
    assert (row.stalled, row.state) == (20, State.ACTIVE)


def test_the_last_stall_before_death_is_run_alone(queue):
    (row,) = active(queue, max_stalled=3)
    row = stall(queue, row)
    expire(queue, row)
    with changes(queue) as changed:
        assert recover(queue) == replace(NOTHING, stalled=[row.job_id], due_ms=0)
    assert changed["suspect"] == {row.job_id: row.order}
    assert changed[f"job:{row.job_id}"].state is State.SUSPECT
    assert claim(queue, W1, nonce(), 1) == []


def test_hand_backs_and_failures_are_not_stalls(queue):
    (row,) = active(queue, max_stalled=1)
    for _ in range(5):
        abandon(queue, W1, [])
        (row,) = claim(queue, W1, nonce(), 1)
    jobs.retry(queue, W1, [retry(row)])
    assert (stored(queue, row.job_id).stalled, stored(queue, row.job_id).failures) == (0, 1)


def test_the_last_error_stays_when_a_job_dies_of_stalls(queue):
    (row,) = active(queue, max_stalled=1)
    jobs.retry(queue, W1, [retry(row)])
    make_due(queue, row.job_id)
    promote(queue)
    (row,) = claim(queue, W1, nonce(), 1)
    expire(queue, row)
    recover(queue)
    assert stored(queue, row.job_id).failure == replace(FAILURE, reason="stalled")


def test_jobs_of_several_holders_and_lanes_are_taken_back_in_one_pass(queue):
    rows = active(queue, 2, lane="a") + active(queue, 2, holder=W2) + active(queue, 1, starting=0, lane="b")
    expire(queue, *rows)
    recovered = recover(queue)
    assert sorted(recovered.stalled) == sorted(row.job_id for row in rows[:4])
    assert recovered.unstarted == [rows[4].job_id]
    assert not queue.client.exists(queue.keys.active, queue.keys.hand(W1), queue.keys.hand(W2))


def test_a_pass_that_reaches_its_limit_says_that_there_is_more(queue):
    rows = active(queue, 5)
    expire(queue, *rows)
    passes = [recover(queue, limit=2) for _ in range(3)]
    assert [len(one.stalled) for one in passes] == [2, 2, 1]
    assert [one.again for one in passes] == [True, True, False]


def test_a_pass_tells_how_many_wait_to_be_mirrored(queue):
    rows = active(queue, 3, max_stalled=1)
    expire(queue, *rows)
    recover(queue)
    assert recover(queue) == replace(NOTHING, deaths=3)


def test_scheduled_and_pending_jobs_are_not_the_business_of_recovery(queue):
    enqueued(queue, 2)
    enqueued(queue, 2, delay_ms=SOON)
    stay_awake(queue)
    with changes(queue) as changed:
        recovered = recover(queue)
    assert replace(recovered, due_ms=None) == NOTHING
    assert changed.keys() <= {"meta"}


def test_a_pass_tells_what_else_there_is_to_do(queue):
    active(queue, 2)
    queue.client.rpush(queue.keys.handoff, "an errand", "another")
    enqueued(queue, 2, delay_ms=SOON)
    stay_awake(queue)
    recovered = recover(queue)
    assert SOON - 5000 < recovered.due_ms <= SOON
    assert replace(recovered, due_ms=None) == replace(NOTHING, active=2, errands=2)


def test_what_is_due_or_waits_for_no_time_is_told(queue):
    waiting_for(queue, a_group(queue, 1))
    stay_awake(queue)
    assert recover(queue).due_ms is None
    make_due(queue, *enqueued(queue, delay_ms=SOON))
    assert recover(queue).due_ms == 0


def test_with_limits_each_pass_says_that_a_promotion_has_something_to_do(queue):
    limits.set(queue, lane="a", concurrency=1)
    assert recover(queue).due_ms == 0


def test_a_wake_up_that_was_lost_is_made_up_for_by_the_next_pass(queue):
    enqueued(queue, lane="a")
    queue.client.delete(queue.keys.wake)
    with changes(queue) as changed:
        recover(queue)
        recover(queue)
    assert changed["wake"] == [b"1"]


def test_nobody_is_woken_by_a_pass_while_the_queue_is_paused(queue):
    enqueued(queue)
    limits.pause(queue)
    queue.client.delete(queue.keys.wake)
    with changes(queue) as changed:
        recover(queue)
    assert "wake" not in changed


def test_a_pass_says_at_once_that_a_job_waits_to_be_run_alone_and_wakes_a_worker_for_it(queue):
    jobs.enqueue(queue, [new_job(queue, extras={"isolate": True})])
    queue.client.delete(queue.keys.wake)
    assert recover(queue).due_ms == 0
    assert queue.client.llen(queue.keys.wake) == 1
