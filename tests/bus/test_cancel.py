"""A job that waits ends at once; one that runs is asked to stop and gets no other turn."""

import pytest

from echomq_django.bus import groups, jobs
from echomq_django.bus.jobs import Cancelled, Verdict, cancel
from echomq_django.bus.queue import count
from echomq_django.bus.recovery import abandon, recover
from echomq_django.bus.row import Done, State
from tests.bus.scenes import (
    SOON,
    W1,
    W2,
    a_group,
    active,
    completion,
    dead,
    death,
    enqueued,
    expire,
    new_job,
    nonce,
    release,
    retry,
    stored,
    suspects,
    unique,
    waiting_for,
)
from tests.bus.view import changes, view

PLACES = {
    "pending": lambda queue, **options: enqueued(queue, **options)[0],
    "g:a:pending": lambda queue, **options: enqueued(queue, lane="a", **options)[0],
    "g::isolated": lambda queue, **options: enqueued(queue, extras=options.get("extras", {}) | {"isolate": True})[0],
    "scheduled": lambda queue, **options: enqueued(queue, delay_ms=SOON, **options)[0],
    "suspect": lambda queue, **options: suspects(queue, **options)[0].job_id,
}
each_place = pytest.mark.parametrize(("place", "arrange"), PLACES.items(), ids=PLACES)


def lost(queue, row):
    expire(queue, row)
    recover(queue)


ENDS = {
    "retried": lambda queue, row: jobs.retry(queue, W1, [retry(row)]),
    "released": lambda queue, row: jobs.release(queue, W1, [release(row)]),
    "released later": lambda queue, row: jobs.release(queue, W1, [release(row, SOON)]),
    "recovered": lambda queue, row: lost(queue, row),
    "abandoned": lambda queue, row: abandon(queue, W1, [(row.job_id, row.token.fence)]),
    "abandoned with others": lambda queue, row: abandon(queue, W1, [(row.job_id, row.token.fence)], shared=True),
    "abandoned before its start": lambda queue, _: abandon(queue, W1, []),
}
each_end = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)


def members(queue, group):
    return groups.over(queue, group["id"])


@each_place
def test_a_job_that_waits_is_cancelled_at_once(queue, place, arrange):
    job_id = arrange(queue)
    with changes(queue) as changed:
        assert cancel(queue, job_id) is Cancelled.NOW
    assert changed[place] is None
    assert [event[:2] for event in changed["events"]] == [("cancelled", job_id)]
    done = jobs.read(queue, job_id)
    assert isinstance(done, Done)
    assert (done.state, done.task, done.value) == (State.CANCELLED, "app.tasks.send", b"")
    assert jobs.claim(queue, W1, nonce(), 5) == []


@each_place
def test_saying_it_again_finds_it_over(queue, place, arrange):
    job_id = arrange(queue)
    cancel(queue, job_id)
    with changes(queue) as changed:
        assert cancel(queue, job_id) is Cancelled.OVER
    assert changed == {}


@each_place
def test_its_neighbours_stay(queue, place, arrange):
    job_id, other = arrange(queue), arrange(queue)
    cancel(queue, job_id)
    assert queue.client.zrange(queue.keys.base + place, 0, -1) == [other.encode()]


@each_place
def test_a_cancelled_job_lets_its_key_and_its_group_go(queue, place, arrange):
    group = a_group(queue, 1)
    waiting = waiting_for(queue, group)
    job_id = arrange(queue, extras={**unique(), "group": group})
    cancel(queue, job_id)
    assert members(queue, group) == 1
    assert "unique:k" not in view(queue)
    assert view(queue)["scheduled"][waiting] < float("inf")


def test_a_job_that_waits_for_a_group_can_be_cancelled(queue):
    waiting = waiting_for(queue, a_group(queue, 1))
    assert cancel(queue, waiting) is Cancelled.NOW
    assert "scheduled" not in view(queue)


def test_a_job_that_runs_is_asked_to_stop_and_keeps_its_lease(queue):
    (row,) = active(queue)
    with changes(queue) as changed:
        assert cancel(queue, row.job_id) is Cancelled.ASKED
    assert changed.keys() == {f"job:{row.job_id}", "events"}
    assert stored(queue, row.job_id).cancelled
    assert jobs.extend(queue, W1) == {row.job_id: row.token}
    with changes(queue) as changed:
        assert cancel(queue, row.job_id) is Cancelled.ASKED
    assert changed == {}


@each_end
def test_a_job_that_was_asked_to_stop_gets_no_other_turn(queue, end):
    group = a_group(queue, 1)
    (row,) = active(queue, extras={**unique(), "group": group}, max_stalled=3)
    cancel(queue, row.job_id)
    end(queue, row)
    done = jobs.read(queue, row.job_id)
    assert isinstance(done, Done)
    assert (done.state, done.attempts, done.fence) == (State.CANCELLED, 1, row.token.fence)
    assert members(queue, group) == 1
    assert not {"active", "pending", "scheduled", "suspect", "dead", "unique:k", f"hand:{W1}"} & view(queue).keys()


def test_also_the_last_stall_ends_as_cancelled_and_not_as_a_death(queue):
    (row,) = active(queue, max_stalled=1)
    cancel(queue, row.job_id)
    expire(queue, row)
    recover(queue)
    assert jobs.read(queue, row.job_id).state is State.CANCELLED


@pytest.mark.parametrize("again", [retry, release])
def test_an_end_that_became_a_cancellation_is_accepted_when_said_again(queue, again):
    (row,) = active(queue)
    cancel(queue, row.job_id)
    end = getattr(jobs, again.__name__)
    assert end(queue, W1, [again(row)]) == [Verdict.ACCEPTED]
    with changes(queue) as changed:
        assert end(queue, W1, [again(row)]) == [Verdict.ACCEPTED]
    assert changed == {}


def test_a_job_that_was_asked_to_stop_and_ends_well_is_done(queue):
    (row,) = active(queue, extras=unique())
    cancel(queue, row.job_id)
    assert jobs.complete(queue, W1, [completion(row)]) == [Verdict.ACCEPTED]
    assert jobs.read(queue, row.job_id).state is State.COMPLETED
    assert "unique:k" not in view(queue)


@each_end
def test_a_job_that_was_cancelled_is_not_completed_by_who_lost_it(queue, end):
    (row,) = active(queue, max_stalled=3)
    cancel(queue, row.job_id)
    end(queue, row)
    with changes(queue) as changed:
        assert jobs.complete(queue, W1, [completion(row)]) == [Verdict.STALE]
    assert changed == {}


def test_a_job_that_was_asked_to_stop_and_is_given_up_ends_as_cancelled(queue):
    (row,) = active(queue)
    cancel(queue, row.job_id)
    assert jobs.die(queue, W1, [death(row)]) == [Verdict.ACCEPTED]
    assert jobs.die(queue, W1, [death(row)]) == [Verdict.ACCEPTED]
    assert jobs.read(queue, row.job_id).state is State.CANCELLED
    assert count(queue).dead == 0


def test_a_holder_sees_that_its_suspect_was_asked_to_stop(queue):
    suspects(queue)
    row = jobs.claim_alone(queue, W2, nonce())
    assert cancel(queue, row.job_id) is Cancelled.ASKED
    assert stored(queue, row.job_id).cancelled


@pytest.mark.parametrize(
    ("arrange", "said"),
    [
        (lambda queue: dead(queue)[0].job_id, Cancelled.OVER),
        (lambda queue: new_job(queue).job_id, Cancelled.MISSING),
    ],
    ids=["dead", "unknown"],
)
def test_what_does_not_live_is_left_alone(queue, arrange, said):
    job_id = arrange(queue)
    with changes(queue) as changed:
        assert cancel(queue, job_id) is said
    assert changed == {}


def test_a_done_job_is_over(queue):
    (row,) = active(queue)
    jobs.complete(queue, W1, [completion(row)])
    with changes(queue) as changed:
        assert cancel(queue, row.job_id) is Cancelled.OVER
    assert changed == {}


def test_a_cancelled_id_is_known_until_its_rest_expires(queue):
    (job_id,) = enqueued(queue)
    cancel(queue, job_id)
    assert jobs.enqueue(queue, [new_job(queue, job_id=job_id)]) == [jobs.Entry.KNOWN]
