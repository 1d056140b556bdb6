from dataclasses import replace

import pytest

from echomq_django.bus import jobs
from echomq_django.bus.jobs import Verdict
from echomq_django.bus.row import State
from echomq_django.bus.schedule import promote
from tests.bus.scenes import FAILURE, OBSTACLE, W1, W2, active, make_due, nonce, release, retry, server_ms, stored
from tests.bus.view import changes


@pytest.mark.parametrize("lane", ["", "a"])
def test_a_job_that_is_handed_back_stands_in_its_old_place_at_no_cost(queue, lane):
    (row,) = active(queue, lane=lane)
    queue.client.delete(queue.keys.wake)
    with changes(queue) as changed:
        assert jobs.release(queue, W1, [release(row)]) == [Verdict.ACCEPTED]
    assert changed == {
        "active": None,
        f"hand:{W1}": None,
        f"g:{lane}:pending" if lane else "pending": {row.job_id: row.order},
        "lanes": {lane: 1},
        "wake": [b"1"],
        "events": [("released", row.job_id, "0")],
        f"job:{row.job_id}": replace(row, state=State.PENDING, started=False),
    }


def test_a_job_that_is_handed_back_with_a_delay_is_scheduled_at_no_cost(queue):
    (row,) = active(queue, priority=-4)
    queue.client.delete(queue.keys.wake)
    before = server_ms(queue)
    with changes(queue) as changed:
        assert jobs.release(queue, W1, [release(row, 5000)]) == [Verdict.ACCEPTED]
    waiting = changed[f"job:{row.job_id}"]
    assert before + 5000 <= waiting.ready_at <= server_ms(queue) + 5000
    assert waiting == replace(row, state=State.SCHEDULED, started=False, order=104 * 2**43 + waiting.ready_at)
    assert changed == {
        "active": None,
        f"hand:{W1}": None,
        "scheduled": {row.job_id: waiting.ready_at},
        "wake": [b"1"],
        "events": [("released", row.job_id, "5000")],
        f"job:{row.job_id}": waiting,
    }


@pytest.mark.parametrize("delay_ms", [0, 5000])
def test_why_a_job_can_not_start_stands_in_its_row_until_something_else_befalls_it(queue, delay_ms):
    (row,) = active(queue)
    jobs.release(queue, W1, [release(row, delay_ms, OBSTACLE)])
    assert stored(queue, row.job_id).failure == OBSTACLE

    make_due(queue, *[row.job_id] * bool(delay_ms))
    promote(queue)
    (row,) = jobs.claim(queue, W1, nonce(), 1)
    jobs.release(queue, W1, [release(row)])
    assert stored(queue, row.job_id).failure == OBSTACLE

    (row,) = jobs.claim(queue, W1, nonce(), 1)
    jobs.retry(queue, W1, [retry(row)])
    assert stored(queue, row.job_id).failure == FAILURE


@pytest.mark.parametrize("delay_ms", [0, 5000])
def test_saying_it_again_changes_nothing(queue, delay_ms):
    (row,) = active(queue)
    jobs.release(queue, W1, [release(row, delay_ms)])
    with changes(queue) as changed:
        assert jobs.release(queue, W1, [release(row, delay_ms)]) == [Verdict.ACCEPTED]
    assert changed == {}


def test_saying_it_again_never_takes_the_job_from_the_next_holder(queue):
    (row,) = active(queue)
    jobs.release(queue, W1, [release(row)])
    jobs.claim(queue, W2, nonce(), 1)
    with changes(queue) as changed:
        assert jobs.release(queue, W1, [release(row)]) == [Verdict.STALE]
    assert changed == {}


def test_handing_back_costs_no_budget_however_often(queue):
    (row,) = active(queue)
    for _ in range(10):
        jobs.release(queue, W1, [release(row)])
        (row,) = jobs.claim(queue, W1, nonce(), 1)
    assert (row.attempts, row.failures, row.stalled) == (11, 0, 0)


def test_a_late_job_keeps_its_new_place_when_it_is_due(queue):
    (row,) = active(queue)
    jobs.release(queue, W1, [release(row, 5000)])
    waiting = stored(queue, row.job_id)
    make_due(queue, row.job_id)
    promote(queue)
    assert stored(queue, row.job_id) == replace(waiting, state=State.PENDING)
