import pytest
import redis

from echomq_django.bus.queue import Counts, Queue, count, open_queue
from echomq_django.bus.schedule import hasten, promote
from echomq_django.exceptions import BusUnavailable, ScriptFailed
from tests.bus.scenes import SOON, a_group, active, dead, enqueued, suspects, waiting_for
from tests.bus.view import changes


def test_opening_a_queue_writes_its_protocol_and_its_lease(queue):
    queue.client.delete(queue.keys.meta)
    for lease_ms in (30_000, 30_000, 45_000):
        open_queue(queue, lease_ms)
        assert queue.client.hgetall(queue.keys.meta) == {b"protocol": b"1", b"lease_ms": b"%d" % lease_ms}


def test_opening_a_queue_forgets_nothing_that_recovery_knows(queue):
    queue.client.hset(queue.keys.meta, mapping={"last_pass": 7, "gap_at": 8})
    with changes(queue) as changed:
        open_queue(queue, 30_000)
    assert changed == {}


def test_each_place_is_counted(queue):
    suspects(queue, 5)
    dead(queue, 4)
    active(queue, 3)
    enqueued(queue, 2)
    enqueued(queue, 1, lane="a")
    for lane, number in (("a", 7), ("b", 8)):
        enqueued(queue, number, lane=lane, extras={"isolate": True})
    enqueued(queue, 6, delay_ms=SOON)
    with changes(queue) as changed:
        counts = count(queue)
    assert changed == {}
    assert counts == Counts(18, 6, 3, 5, 4, counts.next_due_ms, 0, lanes=3, oldest_ms=counts.oldest_ms)
    assert SOON - 5000 < counts.next_due_ms <= SOON


def test_the_age_of_the_oldest_is_told_whatever_its_priority_and_lane(queue):
    for age_ms, lane, priority in ((5_000, "", 0), (90_000, "a", -100), (10_000, "a", 100), (20_000, "b", 0)):
        enqueued(queue, lane=lane, priority=priority, delay_ms=1_000)
        hasten(queue, 1_000 + age_ms)
        promote(queue)
    counts = count(queue)
    assert (counts.pending, counts.lanes) == (4, 3)
    assert 90_000 <= counts.oldest_ms < 95_000


def test_jobs_that_wait_for_a_group_are_told_apart_from_those_that_wait_for_a_time(queue):
    waiting_for(queue, a_group(queue, 2))
    enqueued(queue, 2, delay_ms=SOON)
    counts = count(queue)
    assert (counts.scheduled, counts.waiting, counts.oldest_ms) == (3, 1, None)
    assert SOON - 5000 < counts.next_due_ms <= SOON


def test_an_empty_queue_counts_nothing(queue):
    assert count(queue) == Counts(0, 0, 0, 0, 0, None, 0)


def test_lanes_that_are_too_many_to_count_are_told(queue):
    for lane in range(1010):
        enqueued(queue, lane=f"lane-{lane}")
    counts = count(queue)
    assert (counts.pending, counts.lanes_not_counted) == (1000, 10)


def test_two_queues_and_two_prefixes_share_a_server_and_nothing_else(queue, redis_client):
    others = [Queue(redis_client, queue.keys.prefix, "mail.2"), Queue(redis_client, queue.keys.prefix + "x", "mail")]
    enqueued(queue)
    for other in others:
        enqueued(other, 2)
    assert [count(one).pending for one in (queue, *others)] == [1, 2, 2]


def test_a_server_that_is_not_there_is_unavailable(prefix):
    with (
        redis.Redis.from_url("redis://127.0.0.1:1") as nobody,
        pytest.raises(BusUnavailable, match="queue/count: no answer"),
    ):
        count(Queue(nobody, prefix, "mail"))


@pytest.mark.broken_keyspace
def test_a_key_of_another_type_fails_with_the_name_of_the_script(queue):
    queue.client.set(queue.keys.meta, "not a hash")
    with pytest.raises(ScriptFailed, match="queue/open: WRONGTYPE"):
        open_queue(queue, 30_000)
