"""Groups that another job waits for, chains, and the errands between queues."""

import pytest

from echomq_django.bus import groups, jobs
from echomq_django.bus.dead import requeue
from echomq_django.bus.groups import errands, run_errand
from echomq_django.bus.jobs import Completion, NewJob, Verdict
from echomq_django.bus.queue import Queue, open_queue
from echomq_django.bus.recovery import recover
from echomq_django.bus.row import State
from echomq_django.bus.schedule import promote
from tests.bus.scenes import (
    RESULT,
    SOON,
    W1,
    a_group,
    active,
    completion,
    dead,
    death,
    enqueued,
    expire,
    make_due,
    new_job,
    nonce,
    release,
    retry,
    revival,
    stored,
    unique,
    waiting_for,
)
from tests.bus.view import changes, view


@pytest.fixture
def other(queue):
    """Another queue on the same server."""
    other = Queue(queue.client, queue.keys.prefix, "reports")
    open_queue(other, 30_000)
    return other


def members(queue, group, number):
    """Members of `group` in the hand of a worker."""
    return active(queue, number, extras={"group": group})


def done(queue, *rows):
    return jobs.complete(queue, W1, [completion(row) for row in rows])


def waits(queue, job_id):
    return view(queue)["scheduled"].get(job_id) == float("inf")


def runs(queue):
    """The ids of what can be claimed now, after a promotion."""
    promote(queue)
    return [row.job_id for row in jobs.claim(queue, W1, nonce(), 50)]


def test_the_last_member_lets_the_waiting_job_go(queue):
    group = a_group(queue, 3)
    waiting = waiting_for(queue, group)
    first, second, third = members(queue, group, 3)
    assert runs(queue) == []
    done(queue, first, second)
    assert runs(queue) == []
    queue.client.delete(queue.keys.wake)
    done(queue, third)
    assert queue.client.llen(queue.keys.wake) == 1
    assert runs(queue) == [waiting]


def test_a_waiting_job_is_due_at_no_time(queue):
    waiting = waiting_for(queue, a_group(queue, 1))
    assert waits(queue, waiting)
    assert promote(queue).next_due_ms is None
    assert stored(queue, waiting).state is State.SCHEDULED


def test_a_job_that_comes_when_its_group_is_over_starts_at_once(queue):
    group = a_group(queue, 2)
    done(queue, *members(queue, group, 2))
    assert runs(queue) == []
    waiting = waiting_for(queue, group, lane="a")
    assert runs(queue) == [waiting]


def test_a_job_that_comes_late_and_has_a_delay_waits_for_its_delay_only(queue):
    group = a_group(queue, 1)
    done(queue, *members(queue, group, 1))
    waiting = waiting_for(queue, group, delay_ms=SOON)
    assert 0 < view(queue)["scheduled"][waiting] < float("inf")


def test_a_member_counts_once_however_often_it_ends(queue):
    group = a_group(queue, 2)
    waiting = waiting_for(queue, group)
    (row,) = members(queue, group, 1)
    assert done(queue, row) == done(queue, row) == [Verdict.ACCEPTED]
    jobs.enqueue(queue, [new_job(queue, job_id=row.job_id, extras={"group": group})])
    assert not groups.leave(queue, group, row.job_id)
    assert groups.over(queue, group["id"]) == 1
    assert waits(queue, waiting)


def test_a_member_twice_in_one_call_counts_once(queue):
    group = a_group(queue, 2)
    waiting_for(queue, group)
    (row,) = members(queue, group, 1)
    done(queue, row, row)
    assert groups.over(queue, group["id"]) == 1


@pytest.mark.parametrize("take_out", [jobs.cancel, jobs.discard], ids=["cancelled", "discarded"])
def test_a_member_that_is_taken_out_counts(queue, take_out):
    group = a_group(queue, 2)
    waiting = waiting_for(queue, group)
    for job_id in enqueued(queue, 2, extras={"group": group}):
        assert take_out(queue, job_id) == 1
    assert runs(queue) == [waiting]


def test_a_member_that_died_counts_once_it_is_discarded(queue):
    group = a_group(queue, 1)
    waiting = waiting_for(queue, group)
    (row,) = dead(queue, extras={"group": group})
    assert waits(queue, waiting)
    jobs.discard(queue, row.job_id)
    assert runs(queue) == [waiting]


def test_a_member_that_died_counts_when_its_next_life_ends_well(queue):
    group = a_group(queue, 1)
    waiting = waiting_for(queue, group)
    (row,) = dead(queue, extras={"group": group})
    assert requeue(queue, revival(row, extras={"group": group}))
    assert waits(queue, waiting)
    done(queue, *jobs.claim(queue, W1, nonce(), 1))
    assert runs(queue) == [waiting]


def lost(queue, row):
    expire(queue, row)
    recover(queue)


COMES_BACK = {
    "retried": lambda queue, row: jobs.retry(queue, W1, [retry(row)]),
    "released": lambda queue, row: jobs.release(queue, W1, [release(row)]),
    "recovered": lambda queue, row: lost(queue, row),
    "died": lambda queue, row: jobs.die(queue, W1, [death(row)]),
}


@pytest.mark.parametrize("leave", COMES_BACK.values(), ids=COMES_BACK)
def test_a_member_that_did_not_end_well_does_not_count(queue, leave):
    group = a_group(queue, 1)
    waiting = waiting_for(queue, group)
    leave(queue, *members(queue, group, 1))
    assert groups.over(queue, group["id"]) == 0
    assert waits(queue, waiting)


def test_a_member_that_the_queue_never_had_can_leave(queue):
    group = a_group(queue, 2)
    waiting = waiting_for(queue, group)
    assert not groups.leave(queue, group, new_job(queue).job_id)
    assert groups.leave(queue, group, new_job(queue).job_id)
    assert runs(queue) == [waiting]


def test_a_group_that_nobody_waits_for_is_counted_and_goes_some_day(queue):
    group = a_group(queue, 1)
    del group["after"]
    done(queue, *members(queue, group, 1))
    assert groups.over(queue, group["id"]) == 1
    assert f"group:{group['id']}" in view(queue)["ttl"]


def test_a_waiting_job_that_was_discarded_does_not_come_back(queue):
    group = a_group(queue, 1)
    jobs.discard(queue, waiting_for(queue, group))
    done(queue, *members(queue, group, 1))
    assert runs(queue) == []


def test_a_waiting_job_that_started_is_not_let_go_again(queue):
    group = a_group(queue, 1)
    waiting = waiting_for(queue, group)
    done(queue, *members(queue, group, 1))
    assert runs(queue) == [waiting]
    with changes(queue) as changed:
        assert not groups.leave(queue, group, new_job(queue).job_id)
    assert changed.keys() == {f"group:{group['id']}"}


# Another queue


def test_a_job_of_another_queue_is_let_go_by_an_errand(queue, other):
    group = a_group(queue, 2, of=other)
    waiting = waiting_for(other, group, far=True)
    done(queue, *members(queue, group, 2))
    assert waits(other, waiting)
    (errand,) = errands(queue)
    assert (errand.queue, errand.opens, errand.parcel) == ("reports", waiting, None)
    run_errand(queue, errand, other)
    assert errands(queue) == []
    assert runs(other) == [waiting]


def test_an_errand_run_twice_is_run_once(queue, other):
    group = a_group(queue, 1, of=other)
    waiting = waiting_for(other, group, far=True)
    done(queue, *members(queue, group, 1))
    (errand,) = errands(queue)
    run_errand(queue, errand, other)
    assert runs(other) == [waiting]
    with changes(other) as changed:
        run_errand(queue, errand, other)
    assert changed == {}


def test_an_errand_wakes_a_worker_of_the_other_queue(queue, other):
    group = a_group(queue, 1, of=other)
    waiting_for(other, group, far=True)
    done(queue, *members(queue, group, 1))
    other.client.delete(other.keys.wake)
    run_errand(queue, errands(queue)[0], other)
    assert other.client.llen(other.keys.wake) == 1


def test_a_job_that_waits_for_nobody_is_not_released(queue):
    (job_id,) = enqueued(queue, delay_ms=SOON)
    with changes(queue) as changed:
        assert groups.release(queue, job_id) is Verdict.STALE
        assert groups.release(queue, new_job(queue).job_id) is Verdict.MISSING
    assert changed == {}


# Chains


def ends_with(row, successor, queue_name):
    return Completion(row.job_id, row.token, 60_000, RESULT, successor.parcel(queue_name))


FOLLOWERS = {
    "plain": {},
    "all": {"lane": "Zoë", "priority": -3, "max_stalled": None, "lease_ms": 5, "via_outbox": True},
    "large": {"body": bytes(5000)},
    "with extras": {"extras": {"expires": SOON, "group": {"id": "JOB" + "0" * 26, "size": 2}}},
}
each_follower = pytest.mark.parametrize("options", FOLLOWERS.values(), ids=FOLLOWERS)


@each_follower
def test_a_parcel_unpacks_to_what_was_packed(queue, options):
    job = new_job(queue, **options)
    assert NewJob.unpack(job.parcel("reports")) == ("reports", job)


@each_follower
def test_a_successor_is_enqueued_in_the_step_that_ends_its_predecessor(queue, options):
    (row,) = active(queue)
    successor = new_job(queue, **options)
    queue.client.delete(queue.keys.wake)
    assert jobs.complete(queue, W1, [ends_with(row, successor, "mail")]) == [Verdict.ACCEPTED]
    assert queue.client.llen(queue.keys.wake) == 1
    stands = stored(queue, successor.job_id)
    jobs.discard(queue, successor.job_id)
    jobs.enqueue(queue, [successor])
    enqueued_plainly = stored(queue, successor.job_id)
    stands.order = stands.enqueued_at = enqueued_plainly.order = enqueued_plainly.enqueued_at = 0
    assert stands == enqueued_plainly


def test_a_delayed_successor_waits(queue):
    (row,) = active(queue)
    successor = new_job(queue, delay_ms=SOON)
    jobs.complete(queue, W1, [ends_with(row, successor, "mail")])
    assert runs(queue) == []
    make_due(queue, successor.job_id)
    assert runs(queue) == [successor.job_id]


def test_a_successor_of_another_queue_is_enqueued_by_an_errand(queue, other):
    (row,) = active(queue)
    successor = new_job(other, lane="a", body=b"task\0\0\0\0[[],{}]")
    jobs.complete(queue, W1, [ends_with(row, successor, "reports")])
    assert runs(queue) == []
    (errand,) = errands(queue)
    assert (errand.queue, errand.parcel, errand.opens) == ("reports", successor, "")
    run_errand(queue, errand, other)
    run_errand(queue, errand, other)
    assert errands(queue) == []
    assert runs(other) == [successor.job_id]


@pytest.mark.parametrize("name", ["mail", "reports"])
def test_an_end_said_again_enqueues_nothing(queue, name):
    (row,) = active(queue)
    end = ends_with(row, new_job(queue), name)
    jobs.complete(queue, W1, [end])
    with changes(queue) as changed:
        assert jobs.complete(queue, W1, [end]) == [Verdict.ACCEPTED]
    assert changed == {}


@pytest.mark.parametrize("name", ["mail", "reports"])
def test_a_stale_end_enqueues_nothing(queue, name):
    (row,) = active(queue, max_stalled=None)
    expire(queue, row)
    recover(queue)
    with changes(queue) as changed:
        assert jobs.complete(queue, W1, [ends_with(row, new_job(queue), name)]) == [Verdict.STALE]
    assert changed == {}


def test_a_successor_that_is_there_already_is_left_alone(queue):
    (row,) = active(queue)
    (job_id,) = enqueued(queue)
    before = stored(queue, job_id)
    jobs.complete(queue, W1, [ends_with(row, new_job(queue, job_id=job_id, body=b"other"), "mail")])
    assert stored(queue, job_id) == before


def test_the_last_of_a_chain_lets_its_group_go(queue):
    group = a_group(queue, 1)
    waiting = waiting_for(queue, group)
    (row,) = active(queue)
    successor = new_job(queue, extras={"group": group})
    jobs.complete(queue, W1, [ends_with(row, successor, "mail")])
    assert waits(queue, waiting)
    done(queue, *jobs.claim(queue, W1, nonce(), 1))
    assert runs(queue) == [waiting]


def test_a_successor_that_waits_for_a_group_waits(queue):
    group = a_group(queue, 1)
    (row,) = active(queue)
    successor = new_job(queue, job_id=group["after"], extras={"after": {"group": group["id"], "size": 1, "far": False}})
    jobs.complete(queue, W1, [ends_with(row, successor, "mail")])
    assert waits(queue, successor.job_id)
    done(queue, *members(queue, group, 1))
    assert runs(queue) == [successor.job_id]


def test_errands_are_read_oldest_first_and_at_most_as_many_as_asked(queue, other):
    rows = active(queue, 3)
    successors = [new_job(other) for _ in rows]
    for row, successor in zip(rows, successors, strict=True):
        jobs.complete(queue, W1, [ends_with(row, successor, "reports")])
    assert [errand.parcel for errand in errands(queue, 2)] == successors[:2]


def test_a_successor_of_another_queue_with_a_taken_key_is_merged(queue, other):
    (winner,) = enqueued(other, extras=unique())
    (row,) = active(queue)
    successor = new_job(other, extras=unique())
    jobs.complete(queue, W1, [ends_with(row, successor, "reports")])
    run_errand(queue, errands(queue)[0], other)
    assert jobs.read(other, successor.job_id).job_id == winner
