from dataclasses import replace

import pytest

from echomq_django.bus import jobs
from echomq_django.bus.jobs import Retry, Verdict
from echomq_django.bus.row import Failure, State
from echomq_django.bus.schedule import promote
from tests.bus.scenes import FAILURE, SOON, W1, active, enqueued, make_due, nonce, retry, server_ms, stored, tick
from tests.bus.view import changes


def test_a_failed_job_waits_with_its_error_and_one_more_failure(queue):
    (row,) = active(queue, priority=3)
    before = server_ms(queue)
    with changes(queue) as changed:
        assert jobs.retry(queue, W1, [retry(row, 5000)]) == [Verdict.ACCEPTED]
    waiting = changed[f"job:{row.job_id}"]
    assert before + 5000 <= waiting.ready_at <= server_ms(queue) + 5000
    assert waiting == replace(
        row, state=State.SCHEDULED, started=False, failures=1, failure=FAILURE, order=97 * 2**43 + waiting.ready_at
    )
    assert changed == {
        "active": None,
        f"hand:{W1}": None,
        "scheduled": {row.job_id: waiting.ready_at},
        "events": [("retried", row.job_id, "5000")],
        f"job:{row.job_id}": waiting,
    }


def test_only_a_retry_that_is_due_before_all_others_wakes_a_worker(queue):
    late, soon = active(queue, 2)
    enqueued(queue, delay_ms=SOON)
    queue.client.delete(queue.keys.wake)
    jobs.retry(queue, W1, [retry(late, 2 * SOON)])
    assert not queue.client.exists(queue.keys.wake)
    jobs.retry(queue, W1, [retry(soon, 10)])
    assert queue.client.llen(queue.keys.wake) == 1


def test_saying_it_again_counts_once(queue):
    (row,) = active(queue)
    jobs.retry(queue, W1, [retry(row)])
    with changes(queue) as changed:
        assert jobs.retry(queue, W1, [retry(row, 1)]) == [Verdict.ACCEPTED]
    assert changed == {}


def test_saying_it_again_is_accepted_after_the_job_became_due(queue):
    (row,) = active(queue)
    jobs.retry(queue, W1, [retry(row)])
    make_due(queue, row.job_id)
    promote(queue)
    with changes(queue) as changed:
        assert jobs.retry(queue, W1, [retry(row)]) == [Verdict.ACCEPTED]
    assert changed == {}


def test_the_same_job_twice_in_one_call_fails_once(queue):
    (row,) = active(queue)
    assert jobs.retry(queue, W1, [retry(row), retry(row)]) == [Verdict.ACCEPTED] * 2
    assert stored(queue, row.job_id).failures == 1


def test_each_failure_adds_one_and_the_last_error_stays(queue):
    (row,) = active(queue)
    for number in range(1, 6):
        failure = Failure("failed", "app.Boom", f"for the {number}. time " + "x" * (40 // number))
        jobs.retry(queue, W1, [Retry(row.job_id, row.token, SOON, failure)])
        assert (stored(queue, row.job_id).failures, stored(queue, row.job_id).failure) == (number, failure)
        make_due(queue, row.job_id)
        promote(queue)
        (row,) = jobs.claim(queue, W1, nonce(), 1)
    assert (row.attempts, row.body) == (6, stored(queue, row.job_id).body)


@pytest.mark.parametrize("delay_ms", [0, -60_000])
def test_a_retry_without_delay_still_goes_behind_those_that_wait(queue, delay_ms):
    (row,) = active(queue)
    (waiting,) = enqueued(queue)
    tick(queue)
    jobs.retry(queue, W1, [retry(row, delay_ms)])
    promote(queue)
    assert [row.job_id for row in jobs.claim(queue, W1, nonce(), 2)] == [waiting, row.job_id]


@pytest.mark.parametrize(
    ("text", "kept"),
    [("a\0b", "a\\x00b"), ("\ud800", "\\ud800"), ("<script>", "<script>"), ("x" * 16_000, "x" * 16_000), ("", "")],
)
def test_any_text_can_be_an_error(queue, text, kept):
    (row,) = active(queue)
    jobs.retry(queue, W1, [Retry(row.job_id, row.token, SOON, Failure("failed", "E", text, "trace"))])
    assert stored(queue, row.job_id).failure == Failure("failed", "E", kept, "trace")
