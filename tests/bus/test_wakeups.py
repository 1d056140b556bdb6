import select

import pytest

from echomq_django.bus import jobs
from echomq_django.bus.queue import Queue
from echomq_django.bus.wakeups import WakeUps, pass_on
from echomq_django.exceptions import BusUnavailable
from tests.bus.scenes import W1, enqueued, nonce, suspects
from tests.bus.view import changes


@pytest.fixture
def other(queue):
    return Queue(queue.client, queue.keys.prefix, "reports")


@pytest.fixture
def wakeups(queue, other):
    waiting = WakeUps(queue.client, [queue, other])
    yield waiting
    waiting.close()


def ends(wakeups, seconds=10):
    return bool(select.select([wakeups.fileno()], [], [], seconds)[0])


def test_a_wait_ends_when_any_of_its_queues_has_work(wakeups, other):
    wakeups.arm(30)
    assert wakeups.armed
    assert not ends(wakeups, 0)
    enqueued(other)
    assert ends(wakeups)
    assert wakeups.take() is other
    assert not wakeups.armed


def test_work_that_was_there_before_ends_a_wait_at_once(wakeups, queue):
    enqueued(queue)
    wakeups.arm(30)
    assert ends(wakeups)
    assert wakeups.take() is queue


def test_a_wait_ends_without_a_queue_when_its_time_is_over(wakeups):
    wakeups.arm(0.01)
    assert ends(wakeups)
    assert wakeups.take() is None
    assert not wakeups.armed


def test_a_long_wait_hears_of_the_server_meanwhile_and_goes_on(wakeups, queue):
    wakeups.arm(30)
    assert ends(wakeups)
    assert wakeups.take() is None
    assert wakeups.armed
    wakeups.check()
    enqueued(queue)
    assert ends(wakeups)
    assert wakeups.take() is queue
    assert not wakeups.armed


def test_arming_twice_is_one_wait(wakeups, queue):
    wakeups.arm(30)
    wakeups.arm(30)
    enqueued(queue)
    assert ends(wakeups)
    assert wakeups.take() is queue
    wakeups.arm(0.01)
    assert ends(wakeups)
    assert wakeups.take() is None


def test_a_closed_wait_takes_no_wake_up_from_others(wakeups, queue):
    wakeups.arm(30)
    wakeups.close()
    assert not wakeups.armed
    # The server learns of the closed connection by itself: until then it may still hand out the wake-up.
    while any(b"BLPOP" in client["cmd"].upper().encode() for client in queue.client.client_list()):
        pass
    enqueued(queue)
    assert queue.client.llen(queue.keys.wake) == 1


def test_a_link_that_breaks_is_told(wakeups, queue):
    wakeups.arm(30)
    blocked = [client["id"] for client in queue.client.client_list() if client["cmd"].startswith("blpop")]
    queue.client.client_kill_filter(_id=blocked[0])
    assert ends(wakeups)
    with pytest.raises(BusUnavailable):
        wakeups.take()
    enqueued(queue)
    wakeups.arm(30)
    assert wakeups.take() is queue


def test_a_worker_that_quits_passes_its_wake_up_on_while_there_is_work(queue):
    enqueued(queue)
    queue.client.delete(queue.keys.wake)
    with changes(queue) as changed:
        pass_on(queue)
        pass_on(queue)
    assert changed == {"wake": [b"1"]}


@pytest.mark.parametrize("arrange", [lambda queue: enqueued(queue, extras={"isolate": True}), suspects])
def test_a_worker_that_quits_wakes_another_one_for_what_is_to_be_run_alone(queue, arrange):
    arrange(queue)
    queue.client.delete(queue.keys.wake)
    pass_on(queue)
    assert queue.client.llen(queue.keys.wake) == 1


def test_nobody_is_woken_for_an_empty_queue(queue):
    with changes(queue) as changed:
        pass_on(queue)
    assert changed == {}


def test_one_wake_up_is_enough_to_drain_a_queue_claim_by_claim(queue):
    enqueued(queue, 4)
    for _ in range(3):
        assert queue.client.blpop([queue.keys.wake], 1)
        assert len(jobs.claim(queue, W1, nonce(), 1)) == 1
    assert queue.client.llen(queue.keys.wake) == 1
