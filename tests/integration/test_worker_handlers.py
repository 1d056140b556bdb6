"""What handlers may do to a worker: return, raise and leave behind whatever they like."""

import json

import pytest

from echomq_django import enqueue_many
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import State
from echomq_django.models import DeadJob
from tests.bus.scenes import server_ms
from tests.chaos import ledger, seen, tasks
from tests.chaos.crew import Crew
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]
pytestmark = pytest.mark.parametrize("lease", [60.0])


def test_coroutines_run_together_on_the_threads_of_one_child(crew: Crew, queue: Queue) -> None:
    job_ids = enqueue_many(tasks.sleep_and_work, [((0.1,), {})] * 8)
    crew.start("--threads", "4")

    ends = seen.done(queue, *job_ids)

    assert [json.loads(end.value) for end in ends] == job_ids
    assert ledger.effects(job_ids) == len(job_ids)


def test_a_handler_is_told_which_job_it_runs_and_at_which_attempt(crew: Crew, queue: Queue) -> None:
    job_id = tasks.introduce.enqueue().id
    crew.start()

    [end] = seen.done(queue, job_id)
    assert json.loads(end.value) == {"job_id": job_id, "attempt": 1, "fence": end.fence, "status": "RUNNING"}


def test_a_job_sees_no_context_variable_and_no_language_of_the_job_before(crew: Crew, queue: Queue) -> None:
    job_ids = [tasks.serve_tenant.enqueue(name).id for name in ("one", "two", "three")]
    crew.start()

    ends = seen.done(queue, *job_ids)

    assert len({ledger.pids(job_id)[0] for job_id in job_ids}) == 1
    assert [json.loads(end.value) for end in ends] == [["nobody", "en-us"]] * 3


def test_the_log_of_queries_that_django_keeps_for_debugging_does_not_grow_from_job_to_job(
    crew: Crew, queue: Queue
) -> None:
    job_ids = enqueue_many(tasks.count_queries, [((), {})] * 20)
    crew.start(EMQ_TEST_DEBUG="1")

    assert {end.value for end in seen.done(queue, *job_ids)} == {b"1"}


def test_a_transaction_that_a_handler_leaves_open_is_rolled_back_and_does_not_reach_the_next_job(
    crew: Crew, queue: Queue
) -> None:
    careless = [tasks.leave_transaction_open, tasks.turn_autocommit_off, tasks.break_transaction]
    pairs = [(task.enqueue().id, tasks.work.enqueue().id) for task in careless]
    crew.start()

    for left, following in pairs:
        [end, next_end] = seen.done(queue, left, following)
        assert not ledger.has_order(json.loads(end.value))
        assert next_end.attempts == 1
        assert ledger.effect(following) is not None


@pytest.mark.parametrize("task", [tasks.raise_error, tasks.raise_error_in_coroutine], ids=["thread", "coroutine"])
def test_whatever_a_handler_raises_is_a_failure_of_its_job_alone(crew: Crew, queue: Queue, task: tasks.AnyTask) -> None:
    """C39, celery/django-celery-results#82."""
    failing = {task.enqueue(name).id: name for name in tasks.ERRORS}
    worker = crew.start()

    until(lambda: DeadJob.objects.count() == len(failing))
    following = [tasks.work.enqueue().id, tasks.sleep_and_work.enqueue().id]
    seen.done(queue, *following)

    assert len({ledger.pids(job_id)[0] for job_id in (*failing, *following)}) == 1
    for dead in DeadJob.objects.all():
        name = failing.pop(dead.job_id)
        assert (name, dead.reason, dead.failures, dead.stalled) == (name, "failed", 1, 0)
        assert (name, ledger.starts(dead.job_id)) == (name, 1)
        assert len(dead.error_message) < 5_000
    assert worker.stop() == 0
    assert "characters are left out" in worker.log
    assert len(worker.log) < 200_000


@pytest.mark.parametrize("name", ["ZeroDivisionError", "KeyError"], ids=["given up on", "not retried"])
def test_an_error_after_which_trying_again_makes_no_sense_is_the_first_and_the_last(
    crew: Crew, queue: Queue, name: str
) -> None:
    job_id = tasks.fail_in_some_way.enqueue(name).id
    crew.start()

    dead = until(lambda: DeadJob.objects.filter(job_id=job_id).first())
    assert (dead.error_class, dead.failures, ledger.starts(job_id)) == (f"builtins.{name}", 1, 1)


def test_a_task_whose_own_back_off_fails_is_tried_again_after_the_default(crew: Crew, queue: Queue) -> None:
    job_id = tasks.fail_in_some_way.enqueue("ValueError").id
    worker = crew.start()

    until(lambda: seen.is_in(queue, job_id, State.SCHEDULED))
    assert seen.due_at(queue, job_id) - server_ms(queue) < 12_000
    assert "the default is used" in worker.log


def test_what_using_says_of_failures_travels_with_the_job(crew: Crew, queue: Queue) -> None:
    job_id = tasks.fail.using(max_failures=3, backoff=0).enqueue().id
    crew.start()

    dead = until(lambda: DeadJob.objects.filter(job_id=job_id).first())
    assert (dead.failures, dead.attempts, ledger.starts(job_id)) == (3, 3, 3)


def test_a_job_whose_result_can_not_be_stored_is_done_all_the_same_and_the_log_says_why(
    crew: Crew, queue: Queue
) -> None:
    """C41, celery/celery#6533."""
    results = [tasks.return_value.enqueue(name) for name in tasks.VALUES]
    worker = crew.start()

    for result in results:
        seen.done(queue, result.id)
        result.refresh()
        assert (result.return_value, ledger.starts(result.id)) == (None, 1)
        worker.logged(f"job {result.id} (tests.chaos.tasks.return_value): result not stored")
