"""A job that nobody started in time dies instead of running late."""

from dataclasses import replace

from echomq_django.bus import groups, jobs
from echomq_django.bus.dead import forget, requeue, unmirrored
from echomq_django.bus.jobs import NewJob, claim
from echomq_django.bus.row import Failure, State
from echomq_django.bus.schedule import promote
from tests.bus.scenes import SOON, W1, a_group, enqueued, make_due, nonce, revival, stored, unique
from tests.bus.view import changes, view


def late(queue, number=1, **options):
    """Enqueue jobs whose time has come the moment they are there."""
    return enqueued(queue, number, **{"extras": {"expires": 0}} | options)


def test_a_late_job_dies_at_the_claim_and_is_not_in_the_answer(queue):
    (job_id,) = late(queue)
    given = nonce()
    with changes(queue) as changed:
        assert claim(queue, W1, given, 5) == []
    row = stored(queue, job_id)
    assert (row.state, row.failure, row.deaths, row.failures) == (State.DEAD, Failure("expired"), 1, 0)
    assert row.token.nonce == given
    assert changed.keys() == {"pending", "lanes", "dead", "events", f"job:{job_id}"}
    assert changed["events"] == [("died", job_id, "expired")]


def test_a_job_in_time_runs(queue):
    (job_id,) = enqueued(queue, extras={"expires": SOON})
    assert [row.job_id for row in claim(queue, W1, nonce(), 5)] == [job_id]


def test_a_late_job_does_not_keep_others_from_running(queue):
    first, second, third = late(queue) + enqueued(queue) + late(queue)
    assert [row.job_id for row in claim(queue, W1, nonce(), 5)] == [second]
    assert view(queue)["dead"].keys() == {first, third}


def test_a_claim_that_finds_only_late_jobs_wakes_a_worker_for_the_rest(queue):
    late(queue, 2)
    (job_id,) = enqueued(queue)
    queue.client.delete(queue.keys.wake)
    assert claim(queue, W1, nonce(), 1) == []
    assert queue.client.llen(queue.keys.wake) == 1
    rows = [row for _ in range(2) for row in claim(queue, W1, nonce(), 1)]
    assert [row.job_id for row in rows] == [job_id]


def test_a_delayed_job_expires_where_it_becomes_ready(queue):
    (job_id,) = late(queue, delay_ms=SOON)
    make_due(queue, job_id)
    assert promote(queue).count == 1
    assert claim(queue, W1, nonce(), 5) == []
    assert stored(queue, job_id).state is State.DEAD


def test_an_expired_job_gives_its_key_back_and_its_group_waits(queue):
    group = a_group(queue, 1)
    late(queue, extras={**unique(), "expires": 0, "group": group})
    claim(queue, W1, nonce(), 5)
    assert "unique:k" not in view(queue)
    assert groups.over(queue, group["id"]) == 0


def test_each_expired_death_is_mirrored_forgotten_and_requeued_by_its_own_name(queue):
    first, second = late(queue, 2)
    claim(queue, W1, nonce(), 5)
    deaths = {one.job_id: one.row for one in unmirrored(queue)}
    assert deaths.keys() == {first, second}
    assert forget(queue, [(first, str(deaths[first].token))]) == [True]
    assert requeue(queue, revival(deaths[second]))
    assert [row.job_id for row in claim(queue, W1, nonce(), 5)] == [second]


def test_two_deaths_of_one_job_have_different_names(queue):
    (job_id,) = late(queue)
    claim(queue, W1, nonce(), 5)
    before = stored(queue, job_id)
    jobs.discard(queue, job_id)
    jobs.enqueue(queue, [NewJob(job_id, before.body, extras={"expires": 0})])
    claim(queue, W1, nonce(), 5)
    assert forget(queue, [(job_id, str(before.token))]) == [False]


def test_the_arguments_of_an_expired_job_stay_whole(queue):
    (job_id,) = late(queue, lane="Zoë", priority=3)
    before = stored(queue, job_id)
    claim(queue, W1, nonce(), 5)
    after = stored(queue, job_id)
    assert replace(before, state=State.DEAD, attempts=1, deaths=1, token=after.token, failure=after.failure) == after


def test_a_claim_said_again_kills_nobody_twice(queue):
    (job_id,) = late(queue)
    given = nonce()
    claim(queue, W1, given, 5)
    with changes(queue) as changed:
        assert claim(queue, W1, given, 5, again=True) == []
    assert changed == {}
    assert stored(queue, job_id).deaths == 1
