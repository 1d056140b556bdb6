"""One job for one unique key, for as long as the task says."""

from pathlib import Path
from typing import Any

import pytest

from echomq_django import enqueue_many
from echomq_django.bus import jobs
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import State
from echomq_django.conf import load
from echomq_django.floor.dead_letters import mirror
from echomq_django.plan import make_plan
from tests.bus import scenes
from tests.chaos import flow_tasks, ledger, seen, tasks
from tests.chaos.crew import Crew
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]
pytestmark = pytest.mark.parametrize("lease", [60.0])


def waiting(queue: Queue) -> int:
    """Return how many jobs wait in the queue."""
    return int(queue.client.zcard(queue.keys.pending)) + int(queue.client.zcard(queue.keys.scheduled))


def test_until_it_is_done_a_job_stands_for_all_that_are_enqueued_with_its_arguments(
    crew: Crew, queue: Queue, gate: Path
) -> None:
    task = tasks.hold.using(unique="done")
    first, second = task.enqueue(str(gate)), task.enqueue(str(gate))
    other = task.enqueue(gate=str(gate) + "-of-another").id
    crew.start("--threads", "2")
    until(lambda: ledger.starts(first.id) and ledger.starts(other))

    third = task.enqueue(str(gate))
    third.refresh()
    assert (third.state, waiting(queue)) == ("active", 0)
    gate.touch()
    seen.done(queue, first.id)
    fourth = task.enqueue(str(gate))
    seen.done(queue, fourth.id)
    Path(str(gate) + "-of-another").touch()
    seen.done(queue, other)

    assert [ledger.starts(one.id) for one in (first, second, third, fourth)] == [1, 0, 0, 1]
    second.refresh()
    assert (second.state, second.return_value) == ("completed", 1)


def test_until_it_starts_a_job_stands_for_the_others_and_no_longer(crew: Crew, queue: Queue, gate: Path) -> None:
    task = tasks.hold.using(unique="start")
    first, second = task.enqueue(str(gate)), task.enqueue(str(gate))
    crew.start()
    until(lambda: ledger.starts(first.id))

    third, fourth = task.enqueue(str(gate)), task.enqueue(str(gate))
    assert waiting(queue) == 1
    gate.touch()

    seen.done(queue, first.id, third.id)
    assert [ledger.starts(one.id) for one in (first, second, third, fourth)] == [1, 0, 1, 0]


def test_with_debounce_the_one_that_waits_runs_once_with_the_last_arguments(crew: Crew, queue: Queue) -> None:
    task = flow_tasks.tell_once.using(unique="debounce")
    first = task.enqueue([1], "report")
    task.enqueue([2], "report")
    task.enqueue([3], "report")
    assert waiting(queue) == 1
    crew.start()

    seen.done(queue, first.id)
    assert (ledger.effect("report"), ledger.starts("report")) == ("[3]", 1)


def test_for_so_many_seconds_a_key_is_taken_even_after_its_job_is_done(crew: Crew, queue: Queue) -> None:
    task = tasks.nothing.using(unique=600)
    first, second = task.enqueue().id, task.enqueue().id
    crew.start()
    seen.done(queue, first)

    third = task.enqueue().id
    assert waiting(queue) == 0
    [key] = queue.client.keys(f"{queue.keys.base}unique:*")
    assert 0 < queue.client.pttl(key) <= 600_000
    queue.client.delete(key)  # as if its time had passed
    fourth = task.enqueue().id

    seen.done(queue, fourth)
    assert len({first, second, third, fourth}) == 4


def test_a_death_frees_the_key(crew: Crew, queue: Queue) -> None:
    task = tasks.fail.using(unique="done")
    [first, merged] = enqueue_many(task, [((), {}), ((), {})])
    [row] = jobs.claim(queue, scenes.W1, scenes.nonce(), 9)
    jobs.die(queue, scenes.W1, [scenes.death(row)])

    second = task.enqueue().id
    assert (row.job_id, seen.is_in(queue, second, State.PENDING)) == (first, True)
    assert jobs.read(queue, merged).job_id == first


def test_a_function_of_the_arguments_says_what_is_the_same(crew: Crew, queue: Queue) -> None:
    first = flow_tasks.tell_once.enqueue(1, "a").id
    flow_tasks.tell_once.enqueue(2, "a")
    other = flow_tasks.tell_once.enqueue(3, name="b").id

    assert waiting(queue) == 2
    assert [one.job_id for one in jobs.claim(queue, scenes.W1, scenes.nonce(), 9)] == [first, other]


def test_the_key_is_of_the_task_and_of_the_arguments_in_any_order_of_keywords(crew: Crew) -> None:
    def key(task: tasks.AnyTask, *args: Any, **kwargs: Any) -> str:
        job = make_plan(task, load()).job(args, kwargs, b"")
        return str(job.extras["unique"]["key"])

    add, tell = flow_tasks.add.using(unique="done"), flow_tasks.tell.using(unique="start")
    assert key(add, 1, a=2, b=3) == key(add, 1, b=3, a=2)
    assert len({key(add, 1), key(add, 2), key(add), key(tell, 1), key(add, x=1)}) == 5


def test_who_lost_can_not_cancel_the_job_of_the_others_but_learns_its_id(crew: Crew, queue: Queue) -> None:
    task = tasks.nothing.using(unique="done")
    first, merged = task.enqueue(), task.enqueue()

    assert merged.cancel() is False
    winner = task.get_result(merged.id)
    assert (winner.id, winner.state) == (first.id, "pending")
    assert winner.cancel() is True
    merged.refresh()
    assert merged.state == "cancelled"


@pytest.mark.django_db(transaction=True)
def test_who_lost_to_a_job_that_died_reads_its_death_from_the_database(crew: Crew, queue: Queue) -> None:
    first, merged = (tasks.fail.using(unique="done").enqueue() for _ in range(2))
    [row] = jobs.claim(queue, scenes.W1, scenes.nonce(), 9)
    jobs.die(queue, scenes.W1, [scenes.death(row)])
    [death] = mirror(queue, "default")

    merged.refresh()
    assert (death.job_id, merged.state) == (first.id, "dead")
