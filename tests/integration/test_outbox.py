"""Jobs wait in the database until the server has them."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone
from pytest_django import Settings

from echomq_django.backend import EchoMQBackend
from echomq_django.bus import jobs
from echomq_django.bus.jobs import NewJob
from echomq_django.bus.message import Message
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import State
from echomq_django.bus.schedule import promote
from echomq_django.connection import get_bus
from echomq_django.exceptions import BusUnavailable
from echomq_django.floor import database, outbox
from echomq_django.floor.dead_letters import mirror, requeue
from echomq_django.models import DeadJob, OutboxJob
from tests.bus import scenes
from tests.chaos.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_parked_job_is_pushed_as_it_was_meant_and_then_leaves_the_outbox(queue: Queue) -> None:
    job = scenes.new_job(queue, lane="blue", priority=9, max_stalled=None, lease_ms=4_000, body=b"\x00\xff any bytes")
    outbox.park("default", "default", job, "BusUnavailable: no answer\0")

    parked = OutboxJob.objects.get()
    assert (parked.job_id, parked.backend, parked.queue) == (job.job_id, "default", "default")
    assert parked.error == "BusUnavailable: no answer\\x00"
    assert outbox.relay(get_bus()) == 1

    row = scenes.stored(queue, job.job_id)
    assert (row.lane, row.priority, row.max_stalled, row.lease_ms, row.body) == ("blue", 9, None, 4_000, job.body)
    assert row.state is State.PENDING
    assert not OutboxJob.objects.exists()


def test_what_few_jobs_have_is_parked_with_them(queue: Queue) -> None:
    extras = {"expires": 60_000, "unique": {"key": "k", "mode": "done"}}
    parked, second = (scenes.new_job(queue, extras=extras) for _ in range(2))
    outbox.park("default", "default", parked, "")
    outbox.park("default", "default", second, "")

    assert outbox.relay(get_bus()) == 2
    assert scenes.stored(queue, parked.job_id).extras == extras
    assert jobs.read(queue, second.job_id).job_id == parked.job_id


def test_a_delay_counts_from_the_parking_on(queue: Queue) -> None:
    soon, late = scenes.new_job(queue, delay_ms=600_000), scenes.new_job(queue, delay_ms=600_000)
    outbox.park("default", "default", soon, "")
    outbox.park("default", "default", late, "")
    OutboxJob.objects.filter(job_id=soon.job_id).update(due_at=timezone.now() - timedelta(seconds=1))

    outbox.relay(get_bus())

    assert scenes.stored(queue, soon.job_id).state is State.PENDING
    waiting = scenes.stored(queue, late.job_id)
    assert waiting.state is State.SCHEDULED
    assert 500_000 < waiting.ready_at - scenes.server_ms(queue) <= 600_000


def test_a_job_parked_twice_is_kept_once(queue: Queue) -> None:
    job = scenes.new_job(queue)
    assert outbox.park("default", "default", job, "first").pk == outbox.park("default", "default", job, "second").pk
    assert OutboxJob.objects.get().error == "first"


def test_a_push_that_the_server_has_seen_already_adds_no_second_job(queue: Queue) -> None:
    job = scenes.new_job(queue)
    jobs.enqueue(queue, [job])
    outbox.park("default", "default", job, "the reply was lost")

    assert outbox.relay(get_bus()) == 1
    assert len(jobs.claim(queue, scenes.W1, scenes.nonce(), 9)) == 1


def test_the_oldest_go_first_and_no_more_than_the_limit(queue: Queue) -> None:
    parked = [outbox.park("default", "default", scenes.new_job(queue), "") for _ in range(5)]

    assert outbox.relay(get_bus(), limit=3) == 3
    assert list(OutboxJob.objects.order_by("pk")) == parked[3:]


def test_while_the_server_is_down_everything_stays_parked_and_the_error_has_a_type(outage: Any, queue: Queue) -> None:
    outbox.park("default", "default", scenes.new_job(queue), "")

    with outage(), pytest.raises(BusUnavailable):
        outbox.relay(get_bus())

    assert OutboxJob.objects.get().tries == 0


def test_a_job_that_the_server_refuses_keeps_the_error_and_lets_the_others_pass(queue: Queue) -> None:
    refused = scenes.new_job(queue, lane="no\nlane")
    outbox.park("default", "default", refused, "")
    outbox.park("default", "default", scenes.new_job(queue), "")

    assert outbox.relay(get_bus(), limit=1) == 0
    assert outbox.relay(get_bus(), limit=1) == 1

    left = OutboxJob.objects.get()
    assert (left.job_id, left.tries) == (refused.job_id, 1)
    assert "lane" in left.error


def test_a_job_of_a_queue_that_is_listed_no_more_waits_until_it_is_listed_again(emq: Settings, queue: Queue) -> None:
    outbox.park("default", "retired", scenes.new_job(queue), "")

    assert outbox.relay(get_bus()) == 0
    assert OutboxJob.objects.get().tries == 0
    emq.TASKS = {"default": {**emq.TASKS["default"], "QUEUES": ["default", "retired"]}}
    assert outbox.relay(get_bus()) == 1
    assert len(jobs.claim(get_bus().queue("retired"), scenes.W1, scenes.nonce(), 9)) == 1


def test_two_relays_at_once_share_the_work_and_wait_for_nobody(queue: Queue) -> None:
    for _ in range(4):
        outbox.park("default", "default", scenes.new_job(queue), "")
    taken: list[int] = []

    def relay() -> None:
        taken.append(outbox.relay(get_bus()))
        connection.close()

    with transaction.atomic():
        held = list(database.unclaimed(OutboxJob.objects.order_by("pk")[:2]))
        other = threading.Thread(target=relay)
        other.start()
        other.join(10)
    assert not other.is_alive()

    assert taken == [2]
    assert list(OutboxJob.objects.order_by("pk")) == held


def test_a_requeue_while_the_server_is_down_happens_when_it_is_back(outage: Any, queue: Queue, caplog: Any) -> None:
    scenes.dead(queue)
    [row] = mirror(queue, "default")

    with outage():
        assert requeue([row.pk], "ana") == 1

    assert DeadJob.objects.get().state == DeadJob.State.REQUEUED
    assert outbox.waiting_revivals() == 1
    assert "wait in the outbox" in caplog.text
    assert outbox.relay(get_bus()) == 1
    assert [job.job_id for job in jobs.claim(queue, scenes.W1, scenes.nonce(), 9)] == [row.job_id]


def test_a_requeue_for_a_backend_that_is_configured_no_more_waits_and_says_so(queue: Queue, caplog: Any) -> None:
    scenes.dead(queue)
    [row] = mirror(queue, "default")
    DeadJob.objects.update(backend="retired")

    assert requeue([row.pk], "ana") == 1

    assert outbox.waiting_revivals() == 1
    assert "'retired'" in caplog.text


def test_a_revival_of_a_job_that_lives_already_is_dropped_and_logged(queue: Queue, caplog: Any) -> None:
    scenes.dead(queue)
    [row] = mirror(queue, "default")
    for _ in range(2):
        outbox.park_revivals([row])
        assert outbox.relay(get_bus()) == 1

    assert "it lives or has ended already" in caplog.text
    assert len(jobs.claim(queue, scenes.W1, scenes.nonce(), 9)) == 1


# Cancelling what is parked


def cancel(job: NewJob) -> bool:
    return EchoMQBackend("default", {}).cancel(job.job_id)


def state_of(job: NewJob) -> str:
    return str(EchoMQBackend("default", {}).get_result(job.job_id).state)


def parked(queue: Queue, **options: Any) -> NewJob:
    body = Message("tests.chaos.tasks.nothing", b"[[],{}]").pack()
    job = scenes.new_job(queue, body=body, **options)
    outbox.park("default", "default", job, "no answer")
    return job


def claimed(queue: Queue) -> list[str]:
    return [row.job_id for row in jobs.claim(queue, scenes.W1, scenes.nonce(), 9)]


def test_a_parked_job_that_is_cancelled_never_runs_and_leaves_the_outbox(queue: Queue) -> None:
    job, other = parked(queue), parked(queue)

    assert cancel(job) is True
    assert cancel(job) is False
    assert [one.job_id for one in OutboxJob.objects.all()] == [other.job_id]
    assert state_of(job) == "cancelled"
    outbox.relay(get_bus())
    assert claimed(queue) == [other.job_id]


def test_a_parked_job_is_cancelled_while_the_server_is_down(outage: Any, queue: Queue) -> None:
    job = parked(queue)

    with outage():
        assert cancel(job) is True
        assert cancel(job) is True
        with pytest.raises(BusUnavailable):
            cancel(scenes.new_job(queue))

    assert state_of(job) == "cancelled"
    assert outbox.relay(get_bus()) == 1
    assert (state_of(job), claimed(queue), OutboxJob.objects.count()) == ("cancelled", [], 0)


def test_a_parked_job_that_the_server_has_all_the_same_is_cancelled_there(outage: Any, queue: Queue) -> None:
    job = parked(queue)
    jobs.enqueue(queue, [job])

    with outage():
        assert cancel(job) is True

    assert outbox.relay(get_bus()) == 1
    assert (state_of(job), claimed(queue)) == ("cancelled", [])


def test_a_worker_that_claims_all_the_time_never_gets_a_job_that_was_cancelled(outage: Any, queue: Queue) -> None:
    called_off, got, over = [parked(queue) for _ in range(100)], list[str](), threading.Event()

    def work() -> None:
        while not over.is_set():
            got.extend(claimed(queue))

    with outage():
        assert all(map(cancel, called_off))
    worker = threading.Thread(target=work)
    worker.start()
    assert outbox.relay(get_bus()) == 100
    over.set()
    worker.join(10)
    assert got == []


@pytest.mark.parametrize("extras", [{"unique": {"key": "k", "mode": "debounce"}}, {"expires": 60_000}, None], ids=str)
def test_a_cancelled_job_changes_no_job_that_has_its_unique_key(queue: Queue, extras: Any) -> None:
    [winner] = scenes.enqueued(queue, body=b"t\0default\0\0\0winner", extras=extras)
    job = parked(queue, extras=extras)

    assert cancel(job) is True
    assert scenes.stored(queue, winner).body.endswith(b"winner")
    assert claimed(queue) == [winner]


def test_a_parked_member_that_is_cancelled_lets_its_group_go(queue: Queue) -> None:
    group = scenes.a_group(queue, 1)
    waiting = scenes.waiting_for(queue, group)

    assert cancel(parked(queue, extras={"group": group})) is True
    promote(queue)
    assert claimed(queue) == [waiting]


def test_a_cancel_waits_for_the_relay_that_pushes_the_job_and_finds_it_on_the_server(queue: Queue) -> None:
    job, answers = parked(queue), list[bool]()

    def call_off() -> None:
        answers.append(cancel(job))
        connection.close()

    with transaction.atomic():
        [held] = database.unclaimed(OutboxJob.objects.all())
        other = threading.Thread(target=call_off)
        other.start()
        until(lambda: waits_for_a_lock() or not other.is_alive())
        assert other.is_alive()
        jobs.enqueue(queue, [job])
        held.delete()
    other.join(10)

    assert answers == [True]
    assert (state_of(job), claimed(queue)) == ("cancelled", [])


def waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")  # a transaction sees the activity that it saw first
        cursor.execute("SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
        return cursor.fetchone() is not None


def test_what_is_neither_parked_nor_on_the_server_can_not_be_cancelled(queue: Queue) -> None:
    assert cancel(scenes.new_job(queue)) is False
