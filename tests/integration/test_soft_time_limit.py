"""A handler that runs for too long is interrupted, and neither its worker nor the next job notices."""

import json

import pytest

from echomq_django import enqueue_many
from echomq_django.bus.queue import Queue
from echomq_django.models import DeadJob
from tests.chaos import ledger, seen, tasks
from tests.chaos.crew import Crew
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]
pytestmark = pytest.mark.parametrize("lease", [60.0])

LIMIT = "echomq_django.exceptions.SoftTimeLimit"
both = pytest.mark.parametrize("task", [tasks.outstay, tasks.outstay_in_coroutine], ids=["thread", "coroutine"])


@both
def test_a_handler_that_runs_for_too_long_fails_with_the_limit(crew: Crew, queue: Queue, task: tasks.AnyTask) -> None:
    job_id = task.enqueue("runs on").id
    crew.start()

    dead = until(lambda: DeadJob.objects.filter(job_id=job_id).first())
    assert (dead.reason, dead.error_class, dead.failures, dead.stalled) == ("failed", LIMIT, 1, 0)
    assert dead.error_message == "the handler ran for longer than its soft_time_limit"
    assert "tests/chaos/tasks.py" in dead.traceback


@both
def test_a_handler_may_clean_up_when_its_time_is_over(crew: Crew, queue: Queue, task: tasks.AnyTask) -> None:
    job_id = task.enqueue("cleans up").id
    crew.start()

    [end] = seen.done(queue, job_id)
    assert json.loads(end.value) == "clean"


def test_a_call_that_is_not_interruptible_is_over_its_limit_when_it_returns(crew: Crew, queue: Queue) -> None:
    job_id = tasks.outstay.enqueue("is in one long call").id
    crew.start()

    dead = until(lambda: DeadJob.objects.filter(job_id=job_id).first())
    assert (dead.error_class, ledger.starts(job_id)) == (LIMIT, 1)


def test_an_interrupted_handler_is_retried_like_any_that_failed(crew: Crew, queue: Queue) -> None:
    job_id = tasks.outstay.using(max_failures=2, backoff=0).enqueue("runs on").id
    crew.start()

    dead = until(lambda: DeadJob.objects.filter(job_id=job_id).first())
    assert (dead.failures, ledger.starts(job_id)) == (2, 2)


def test_the_limit_of_a_call_comes_before_that_of_its_task(crew: Crew, queue: Queue) -> None:
    longer = tasks.outstay.using(soft_time_limit=60).enqueue("is in one long call").id
    without = tasks.outstay.using(soft_time_limit=None).enqueue("is in one long call").id
    shorter = tasks.work_within_a_limit.using(soft_time_limit=1e-6, max_failures=1).enqueue().id
    crew.start()

    seen.done(queue, longer, without)
    dead = until(lambda: DeadJob.objects.filter(job_id=shorter).first())
    assert dead.error_class == LIMIT


def test_a_queue_gives_its_limit_to_tasks_without_one(
    crew: Crew, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMQ_TEST_OPTIONS", json.dumps({"lease": 60, "queues": {"default": {"soft_time_limit": 0.3}}}))
    job_id = tasks.hold.using(max_failures=1).enqueue("no such gate").id
    crew.start()

    dead = until(lambda: DeadJob.objects.filter(job_id=job_id).first())
    assert dead.error_class == LIMIT


def test_neither_a_connection_nor_an_exception_of_an_interrupted_handler_reaches_the_next_jobs(
    crew: Crew, queue: Queue
) -> None:
    interrupted = enqueue_many(tasks.outstay, [(("is in a transaction",), {})] * 2)
    following = enqueue_many(tasks.work_within_a_limit, [((), {})] * 300)
    worker = crew.start("--threads", "2", EMQ_TEST_CONN_MAX_AGE="600")

    seen.done(queue, *following)
    until(lambda: DeadJob.objects.count() == len(interrupted))
    assert {dead.error_class for dead in DeadJob.objects.all()} == {LIMIT}
    assert ledger.effects(following) == len(following)
    assert len({pid for job_id in following for pid in ledger.pids(job_id)}) == 1
    assert worker.stop() == 0
