import pytest

from echomq_django.bus import ids, jobs
from echomq_django.bus.jobs import MAX_ROWS, enqueue
from echomq_django.bus.row import Row, State
from echomq_django.exceptions import InvalidJobId, InvalidName
from tests.bus.scenes import LEASE, W1, active, completion, dead, enqueued, new_job, nonce, server_ms, stored, tick
from tests.bus.view import changes


def test_a_new_job_is_one_row_in_its_lane(queue):
    job = new_job(queue, priority=7, max_stalled=5, via_outbox=True)
    before = server_ms(queue)
    with changes(queue) as changed:
        assert enqueue(queue, [job]) == [True]
    row = changed[f"job:{job.job_id}"]
    assert before <= row.enqueued_at <= server_ms(queue)
    assert changed == {
        "pending": {job.job_id: row.order},
        "lanes": {"": 1},
        "wake": [b"1"],
        f"job:{job.job_id}": Row(
            job_id=job.job_id,
            state=State.PENDING,
            lane="",
            priority=7,
            max_stalled=5,
            lease_ms=LEASE,
            enqueued_at=row.enqueued_at,
            order=93 * 2**43 + row.enqueued_at,
            body=job.body,
            via_outbox=True,
        ),
    }
    assert row.ready_at == row.enqueued_at


def test_the_first_job_of_an_unknown_queue_writes_the_protocol(queue):
    queue.client.delete(queue.keys.meta)
    with changes(queue) as changed:
        enqueued(queue)
    assert changed["meta"] == {"protocol": "1"}


def test_a_job_with_a_lane_waits_there(queue):
    with changes(queue) as changed:
        (job_id,) = enqueued(queue, lane="Zoë & co")
    row = changed[f"job:{job_id}"]
    assert (row.lane, changed["g:Zoë & co:pending"], changed["lanes"]) == (
        "Zoë & co",
        {job_id: row.order},
        {"Zoë & co": 1},
    )
    assert "pending" not in changed


def test_a_delayed_job_is_scheduled_by_the_clock_of_the_server(queue):
    with changes(queue) as changed:
        (job_id,) = enqueued(queue, delay_ms=5000)
    row = changed[f"job:{job_id}"]
    assert row.state is State.SCHEDULED
    assert row.ready_at == row.enqueued_at + 5000
    assert changed.keys() == {"scheduled", "wake", f"job:{job_id}"}
    assert changed["scheduled"] == {job_id: row.ready_at}


def test_only_a_job_that_is_due_before_all_others_wakes_a_worker(queue):
    enqueued(queue, delay_ms=5000)
    queue.client.delete(queue.keys.wake)
    enqueued(queue, delay_ms=9000)
    assert not queue.client.exists(queue.keys.wake)
    enqueued(queue, delay_ms=1000)
    assert queue.client.llen(queue.keys.wake) == 1


def test_a_delay_in_the_past_does_not_overtake_anybody(queue):
    (first,) = enqueued(queue)
    tick(queue)
    enqueued(queue, delay_ms=-60_000)
    assert [row.job_id for row in jobs.claim(queue, W1, nonce(), 1)] == [first]


def test_a_job_without_a_bound_on_stalls_says_so(queue):
    (job_id,) = enqueued(queue, max_stalled=None)
    assert stored(queue, job_id).max_stalled is None


def test_many_wake_ups_are_one(queue):
    for _ in range(3):
        enqueued(queue, 2)
    assert queue.client.lrange(queue.keys.wake, 0, -1) == [b"1"]


@pytest.mark.parametrize("lane", ["", "a"])
@pytest.mark.parametrize("delay_ms", [0, 5000])
def test_saying_it_again_adds_nothing(queue, lane, delay_ms):
    job = new_job(queue, lane=lane, delay_ms=delay_ms)
    assert enqueue(queue, [job]) == [True]
    with changes(queue) as changed:
        assert enqueue(queue, [job]) == [False]
    assert changed == {}


def test_the_same_id_twice_in_one_call_is_one_job(queue):
    job, other = new_job(queue), new_job(queue)
    assert enqueue(queue, [job, job, other, job]) == [True, False, True, False]


@pytest.mark.parametrize("place", ["active", "done", "dead"])
def test_an_id_is_taken_wherever_its_job_is(queue, place):
    (row,) = dead(queue) if place == "dead" else active(queue)
    if place == "done":
        jobs.complete(queue, W1, [completion(row)])
    with changes(queue) as changed:
        assert enqueue(queue, [new_job(queue, job_id=row.job_id)]) == [False]
    assert changed == {}


def test_a_crowd_comes_in_chunks_and_keeps_its_order(queue):
    batch = [new_job(queue) for _ in range(2 * MAX_ROWS + 50)]
    assert enqueue(queue, batch) == [True] * len(batch)
    assert queue.client.zrange(queue.keys.pending, 0, -1) == [job.job_id.encode() for job in batch]


def test_large_bodies_come_in_chunks_of_about_a_megabyte(queue):
    calls = queue.client.info("commandstats")["cmdstat_evalsha"]["calls"]
    batch = [new_job(queue, body=bytes(400_000)) for _ in range(5)]
    assert enqueue(queue, batch) == [True] * 5
    assert queue.client.info("commandstats")["cmdstat_evalsha"]["calls"] - calls == 3


def test_no_job_needs_no_call(queue):
    assert enqueue(queue, []) == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"lane": "x" * 129}, InvalidName),
        ({"lane": "x" * 300}, InvalidName),
        ({"lane": "a\0b"}, InvalidName),
        ({"job_id": "job:1"}, InvalidJobId),
        ({"job_id": ids.mint("mail").lower()}, InvalidJobId),
    ],
)
def test_a_name_that_no_key_can_hold_is_refused_before_anything_is_written(queue, options, error):
    with changes(queue) as changed, pytest.raises(error):
        enqueue(queue, [new_job(queue), new_job(queue, **options)])
    assert changed == {}
