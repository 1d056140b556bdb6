"""`isolate=True` from the task to the row, through the database and back."""

import os
from collections.abc import Callable
from threading import Event, Thread

import pytest
from django.test import override_settings

from echomq_django import enqueue_chain, enqueue_group, enqueue_many, step, task
from echomq_django.bus import jobs, limits
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import Row
from echomq_django.connection import get_bus
from echomq_django.floor import outbox
from echomq_django.floor.dead_letters import mirror, requeue
from echomq_django.models import OutboxJob
from echomq_django.testing import drain
from echomq_django.worker.board import Board
from echomq_django.worker.child import Child
from echomq_django.worker.config import WorkerConfig
from echomq_django.worker.processes import STOP, control_pipe
from tests.bus import scenes
from tests.chaos.waiting import PATIENCE, until

pytestmark = pytest.mark.django_db(transaction=True)

ran: list[str] = []


@task(isolate=True)
def alone(name: str) -> str:
    ran.append(name)
    return name


@task
def beside(name: str) -> str:
    ran.append(name)
    return name


@task(isolate=True, max_failures=1)
def failing() -> None:
    raise ValueError("as always")


def isolated(queue: Queue, lane: str = "") -> list[str]:
    """Return the jobs of a lane that wait to be run alone."""
    return [job_id.decode() for job_id in queue.client.zrange(queue.keys.base + f"g:{lane}:isolated", 0, -1)]


ENQUEUED: dict[str, Callable[[], list[str]]] = {
    "by its task": lambda: [alone.enqueue("a").id],
    "by its call": lambda: [beside.using(isolate=True).enqueue("a").id],
    "in bulk": lambda: list(enqueue_many(alone, [(("a",), {}), (("b",), {})])),
    "in a group": lambda: enqueue_group([step(alone, "a"), step(alone, "b")]).members,
}


@pytest.mark.parametrize("enqueue", ENQUEUED.values(), ids=ENQUEUED)
def test_a_job_is_isolated(queue: Queue, enqueue: Callable[[], list[str]]) -> None:
    assert sorted(enqueue()) == isolated(queue)


@pytest.mark.parametrize("plain", [beside, alone.using(isolate=False)], ids=["its task", "its call"])
def test_a_job_is_not_isolated_if_its_task_or_its_call_does_not_say_so(queue: Queue, plain: object) -> None:
    job_id = plain.enqueue("a").id  # type: ignore[attr-defined]
    assert scenes.stored(queue, job_id).extras == {}
    assert isolated(queue) == []


def test_a_step_of_a_chain_is_isolated(queue: Queue) -> None:
    ran.clear()
    limits.pause(queue, lane="later")
    enqueue_chain(step(beside, "first"), step(alone.using(lane="later")))
    drain()
    [waiting] = isolated(queue, "later")
    assert (scenes.stored(queue, waiting).extras, ran) == ({"isolate": True}, ["first"])


def test_a_job_that_waited_in_the_outbox_is_isolated(queue: Queue) -> None:
    job = scenes.new_job(queue, extras={"isolate": True})
    outbox.park("default", "default", job, "")
    assert OutboxJob.objects.get().extras == {"isolate": True}
    outbox.relay(get_bus())
    assert isolated(queue) == [job.job_id]


def test_a_dead_job_that_is_requeued_is_isolated_again(queue: Queue) -> None:
    job_id = alone.enqueue("a").id
    row = jobs.claim_alone(queue, scenes.W1, scenes.nonce())
    assert isinstance(row, Row)
    jobs.die(queue, scenes.W1, [scenes.death(row)])
    [dead] = mirror(queue, "default")
    assert dead.isolate

    requeue([dead.pk], "ana")

    assert isolated(queue) == [job_id]


def test_a_dead_job_that_was_not_isolated_is_not_isolated_by_a_requeue(queue: Queue) -> None:
    scenes.dead(queue)
    [dead] = mirror(queue, "default")
    requeue([dead.pk], "ana")
    assert not dead.isolate
    assert scenes.stored(queue, dead.job_id).extras == {}


def test_drain_runs_it_with_the_others(queue: Queue) -> None:
    ran.clear()
    first, second = alone.enqueue("a"), beside.enqueue("b")
    assert sorted(drain().succeeded) == sorted([first.id, second.id])
    assert sorted(ran) == ["a", "b"]


def test_drain_stops_at_its_first_error(queue: Queue) -> None:
    ran.clear()
    failing.enqueue()
    waiting = alone.enqueue("a").id
    with pytest.raises(ValueError, match="as always"):
        drain()
    assert (isolated(queue), ran) == ([waiting], [])


def test_an_idle_child_calls_its_supervisor_at_once(queue: Queue) -> None:
    called, (reader, writer) = Event(), control_pipe()
    config = WorkerConfig("default", (("default", 1),))
    child = Child(config, [queue], scenes.W1, Board(1), reader, called.set)
    thread = Thread(target=child.run)
    thread.start()
    try:
        until(lambda: _blocked(queue))
        assert not called.is_set()
        alone.enqueue("a")
        assert called.wait(PATIENCE)
    finally:
        os.write(writer, STOP)
        thread.join(PATIENCE)


def _blocked(queue: Queue) -> bool:
    """Whether somebody waits for work."""
    return int(queue.client.info("clients")["blocked_clients"]) > 0


@override_settings(TASKS={"default": {"BACKEND": "echomq_django.testing.InlineBackend"}})
def test_the_inline_backend_runs_it_at_once() -> None:
    ran.clear()
    assert alone.enqueue("a").return_value == "a"
    assert ran == ["a"]
