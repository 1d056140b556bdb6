import pytest

from echomq_django.bus import jobs
from echomq_django.bus.jobs import Verdict, discard
from tests.bus.scenes import SOON, W1, active, completion, dead, enqueued, new_job, retry, suspects
from tests.bus.view import changes

PLACES = {
    "pending": lambda queue: enqueued(queue)[0],
    "g:a:pending": lambda queue: enqueued(queue, lane="a")[0],
    "g:a:isolated": lambda queue: enqueued(queue, lane="a", extras={"isolate": True})[0],
    "scheduled": lambda queue: enqueued(queue, delay_ms=SOON)[0],
    "suspect": lambda queue: suspects(queue)[0].job_id,
    "dead": lambda queue: dead(queue)[0].job_id,
}
each_place = pytest.mark.parametrize(("place", "arrange"), PLACES.items(), ids=PLACES)
LETTERS = {"pending": "p", "g:a:pending": "p", "g:a:isolated": "p", "scheduled": "s", "suspect": "u", "dead": "d"}


@each_place
def test_a_job_that_nobody_holds_is_taken_out_for_good(queue, place, arrange):
    job_id = arrange(queue)
    with changes(queue) as changed:
        assert discard(queue, job_id) is Verdict.ACCEPTED
    expected = {place: None, f"job:{job_id}": None, "events": [("discarded", job_id, LETTERS[place])]}
    rings = {"pending": {"lanes": None}, "g:a:pending": {"lanes": None}, "g:a:isolated": {"isolated": None}}
    assert changed == expected | rings.get(place, {})


@each_place
def test_saying_it_again_finds_no_job(queue, place, arrange):
    job_id = arrange(queue)
    discard(queue, job_id)
    with changes(queue) as changed:
        assert discard(queue, job_id) is Verdict.MISSING
    assert changed == {}


@each_place
def test_its_neighbours_stay(queue, place, arrange):
    job_id, other = arrange(queue), arrange(queue)
    discard(queue, job_id)
    assert queue.client.zrange(queue.keys.base + place, 0, -1) == [other.encode()]


def test_a_retried_job_can_be_discarded(queue):
    (row,) = active(queue)
    jobs.retry(queue, W1, [retry(row)])
    assert discard(queue, row.job_id) is Verdict.ACCEPTED


def test_a_job_in_hand_is_refused(queue):
    (row,) = active(queue)
    with changes(queue) as changed:
        assert discard(queue, row.job_id) is Verdict.STALE
    assert changed == {}


def test_a_done_job_is_none(queue):
    (row,) = active(queue)
    jobs.complete(queue, W1, [completion(row)])
    with changes(queue) as changed:
        assert discard(queue, row.job_id) is Verdict.MISSING
    assert changed == {}


def test_an_unknown_job_is_none(queue):
    assert discard(queue, new_job(queue).job_id) is Verdict.MISSING


def test_a_discarded_id_is_free_again(queue):
    (job_id,) = enqueued(queue)
    discard(queue, job_id)
    assert jobs.enqueue(queue, [new_job(queue, job_id=job_id)]) == [True]
