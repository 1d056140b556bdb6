from dataclasses import replace

from echomq_django.bus import groups, jobs
from echomq_django.bus.row import Failure
from echomq_django.bus.schedule import hasten, promote
from echomq_django.bus.scripts import Script
from tests.bus.scenes import SOON, W1, a_group, active, enqueued, nonce, stored, waiting_for
from tests.bus.view import changes


def test_a_job_that_waits_for_a_time_comes_nearer_with_all_its_instants(queue):
    (job_id,) = enqueued(queue, delay_ms=SOON, lane="a", extras={"expires": 5})
    waiting, due = stored(queue, job_id), queue.client.zscore(queue.keys.scheduled, job_id)
    queue.client.delete(queue.keys.wake)
    with changes(queue) as changed:
        assert hasten(queue, 1000) == 1
    assert changed == {
        "scheduled": {job_id: due - 1000},
        "wake": [b"1"],
        f"job:{job_id}": replace(waiting, order=waiting.order - 1000, enqueued_at=waiting.enqueued_at - 1000),
    }


def test_what_waits_for_no_time_stays_as_it_is(queue):
    waiting_for(queue, a_group(queue, 1))
    enqueued(queue)
    with changes(queue) as changed:
        assert hasten(queue, 1000) == 0
    assert changed == {}


def test_a_job_that_backs_off_keeps_its_error_and_counters(queue):
    (row,) = active(queue)
    jobs.retry(queue, W1, [jobs.Retry(row.job_id, row.token, SOON, Failure("failed", "E", "why", "where"))])
    before = stored(queue, row.job_id)
    hasten(queue, SOON)
    after = stored(queue, row.job_id)
    assert after == replace(before, order=before.order - SOON, enqueued_at=before.enqueued_at - SOON)
    assert promote(queue).count == 1


def test_more_jobs_than_one_script_takes_keep_their_order(queue):
    late = [job_id for delay in range(450, 0, -1) for job_id in enqueued(queue, delay_ms=SOON + 1000 * delay)]
    assert hasten(queue, SOON + 450_000) == 450
    while promote(queue).count:
        pass
    claimed = [row.job_id for _ in range(3) for row in jobs.claim(queue, W1, nonce(), 200)]
    assert claimed == late[::-1]


def test_said_again_with_the_same_instants_it_changes_nothing(queue):
    (job_id,) = enqueued(queue, delay_ms=SOON)
    keys = queue.keys
    due = f"{queue.client.zscore(keys.scheduled, job_id):.0f}"
    names = [keys.scheduled, keys.meta, keys.wake, keys.job(job_id)]
    script = Script("schedule/hasten")
    assert queue.run(script, names, [1000, job_id, due]) == [1]
    with changes(queue) as changed:
        assert queue.run(script, names, [1000, job_id, due]) == [0]
    assert changed == {}


def test_a_group_that_ends_meanwhile_lets_its_job_go(queue):
    group = a_group(queue, 1)
    waiting_for(queue, group)
    groups.leave(queue, group, enqueued(queue)[0])
    assert hasten(queue, 10) == 1
