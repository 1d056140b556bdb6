from dataclasses import replace

import pytest

from echomq_django.bus import jobs
from echomq_django.bus.row import Failure, State
from echomq_django.bus.schedule import Promoted, promote
from tests.bus.scenes import SOON, W1, active, enqueued, make_due, nonce, stored
from tests.bus.view import changes


@pytest.mark.parametrize("lane", ["", "a"])
def test_a_job_that_is_due_moves_to_its_lane(queue, lane):
    (job_id,) = enqueued(queue, delay_ms=SOON, lane=lane)
    waiting = stored(queue, job_id)
    make_due(queue, job_id)
    queue.client.delete(queue.keys.wake)
    with changes(queue) as changed:
        assert promote(queue) == Promoted(1, None, again=False)
    assert changed == {
        "scheduled": None,
        f"g:{lane}:pending" if lane else "pending": {job_id: waiting.order},
        "lanes": {lane: 1},
        "wake": [b"1"],
        f"job:{job_id}": replace(waiting, state=State.PENDING),
    }


def test_what_is_not_due_stays_and_its_time_is_told(queue):
    enqueued(queue, delay_ms=SOON)
    with changes(queue) as changed:
        promoted = promote(queue)
    assert (promoted.count, promoted.again) == (0, False)
    assert SOON - 5000 < promoted.next_due_ms <= SOON
    assert changed == {}


def test_an_empty_schedule_has_no_next(queue):
    assert promote(queue) == Promoted(0, None, again=False)


def test_a_second_pass_finds_nothing_to_do(queue):
    make_due(queue, *enqueued(queue, 3, delay_ms=SOON))
    promote(queue)
    with changes(queue) as changed:
        assert promote(queue) == Promoted(0, None, again=False)
    assert changed == {}


def test_a_pass_that_reaches_its_limit_says_that_there_is_more(queue):
    make_due(queue, *enqueued(queue, 5, delay_ms=SOON))
    passes = [promote(queue, limit=2) for _ in range(3)]
    assert [(one.count, one.again) for one in passes] == [(2, True), (2, True), (1, False)]
    assert passes[0].next_due_ms == 0


def test_a_delayed_job_stands_behind_those_that_became_ready_before_it(queue):
    (late,) = enqueued(queue, delay_ms=5000)
    waiting = enqueued(queue, 2)
    make_due(queue, late)
    promote(queue)
    assert [row.job_id for row in jobs.claim(queue, W1, nonce(), 3)] == [*waiting, late]


def test_a_row_does_not_grow_before_its_first_claim(queue):
    (job_id,) = enqueued(queue, delay_ms=SOON)
    size = queue.client.strlen(queue.keys.job(job_id))
    make_due(queue, job_id)
    promote(queue)
    assert queue.client.strlen(queue.keys.job(job_id)) == size


def test_a_retried_job_keeps_its_error_and_counters(queue):
    (row,) = active(queue)
    jobs.retry(queue, W1, [jobs.Retry(row.job_id, row.token, SOON, Failure("failed", "E", "why", "where"))])
    waiting = stored(queue, row.job_id)
    make_due(queue, row.job_id)
    promote(queue)
    assert stored(queue, row.job_id) == replace(waiting, state=State.PENDING)
