"""A job's result tells Django's status and the queue's own state, wherever the job is by now."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import Settings

from echomq_django import task
from echomq_django.bus import ids, jobs
from echomq_django.bus.message import Message
from echomq_django.bus.queue import Queue
from echomq_django.bus.recovery import recover
from echomq_django.bus.row import Done, Failure, Row
from echomq_django.context import make_context
from echomq_django.exceptions import BusUnavailable, JobDied, UnresolvableTask, UnsupportedServer
from echomq_django.floor.dead_letters import discard, mirror, requeue
from echomq_django.floor.outbox import park, park_revivals
from echomq_django.framework import TaskResultDoesNotExist, TaskResultMismatch, TaskResultStatus, task_backends
from echomq_django.models import DeadJob, OutboxJob
from echomq_django.results import TaskResult, failed, from_row, started, succeeded
from tests.bus import scenes

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("emq")]

BOOM = Failure("failed", "builtins.ValueError", "boom", "Traceback: boom")


@task
def send(number: int = 0, *, text: str = "") -> str:
    return text


@task
def other(number: int = 0) -> None: ...


def claimed(queue: Queue, **options: Any) -> Row:
    [row] = jobs.claim(queue, scenes.W1, scenes.nonce(), 1, **options)
    return row


def completed(queue: Queue, value: bytes = b'"sent"', ttl_ms: int = 60_000) -> str:
    result = send.enqueue(1, text="x")
    row = claimed(queue)
    end = jobs.Completion(row.job_id, row.token, ttl_ms, Done.pack_result(send.module_path, scenes.W1, value))
    jobs.complete(queue, scenes.W1, [end])
    return result.id


def dead(queue: Queue, failure: Failure = BOOM) -> str:
    result = send.enqueue(1, text="x")
    row = claimed(queue)
    jobs.die(queue, scenes.W1, [jobs.Death(row.job_id, row.token, failure)])
    return result.id


def test_a_waiting_job_is_ready(queue: Queue) -> None:
    result = send.using(priority=5).enqueue(1, text="x")

    found = send.get_result(result.id)

    assert isinstance(found, TaskResult)
    assert (found.status, found.state, found.attempts) == (TaskResultStatus.READY, "pending", 0)
    assert (found.args, found.kwargs, found.backend) == ([1], {"text": "x"}, "default")
    assert (found.started_at, found.finished_at, found.last_attempted_at) == (None, None, None)
    assert abs(found.enqueued_at - result.enqueued_at) < timedelta(seconds=60)
    assert found.task == send.using(priority=5)
    with pytest.raises(ValueError, match="not finished"):
        found.return_value  # noqa: B018


def test_a_delayed_job_is_ready(queue: Queue) -> None:
    result = send.using(run_after=datetime.now(UTC) + timedelta(hours=1)).enqueue()

    found = send.get_result(result.id)

    assert (found.status, found.state) == (TaskResultStatus.READY, "scheduled")


def test_a_job_in_work_is_running(queue: Queue) -> None:
    result = send.enqueue()
    row = claimed(queue)

    result.refresh()

    assert (result.status, result.state) == (TaskResultStatus.RUNNING, "active")
    assert (result.attempts, result.worker_ids) == (1, [scenes.W1])
    assert result.started_at == result.last_attempted_at == datetime.fromtimestamp(row.claimed_at / 1000, UTC)


def test_a_job_that_a_worker_only_holds_is_ready(queue: Queue) -> None:
    result = send.enqueue()
    claimed(queue, starting=0)

    result.refresh()

    assert (result.status, result.state, result.attempts, result.worker_ids) == (
        TaskResultStatus.READY,
        "active",
        0,
        [],
    )
    assert result.started_at is None


def test_a_job_that_will_be_tried_again_is_ready_and_shows_its_last_error(queue: Queue) -> None:
    result = send.enqueue()
    row = claimed(queue)
    jobs.retry(queue, scenes.W1, [jobs.Retry(row.job_id, row.token, scenes.SOON, BOOM)])

    result.refresh()

    assert (result.status, result.state, result.failures, result.attempts) == (
        TaskResultStatus.READY,
        "scheduled",
        1,
        1,
    )
    [error] = result.errors
    assert (error.exception_class, error.traceback) == (ValueError, "Traceback: boom")


def test_a_second_attempt_counts_both_workers(queue: Queue) -> None:
    result = send.enqueue()
    row = claimed(queue)
    jobs.release(queue, scenes.W1, [scenes.release(row)])
    jobs.claim(queue, scenes.W2, scenes.nonce(), 1)

    result.refresh()

    assert (result.attempts, result.worker_ids) == (2, ["unknown", scenes.W2])


def test_a_suspect_is_ready_and_shows_its_stalls(queue: Queue) -> None:
    result = send.using(max_stalled=2).enqueue()
    row = claimed(queue)
    scenes.expire(queue, row)
    recover(queue)
    result.refresh()

    assert (result.status, result.state, result.stalled) == (TaskResultStatus.READY, "suspect", 1)


def test_a_completed_job_has_its_value_and_no_arguments(queue: Queue) -> None:
    found = send.get_result(completed(queue, b'{"a":[1,null]}'))

    assert (found.status, found.state, found.is_finished) == (TaskResultStatus.SUCCESSFUL, "completed", True)
    assert found.return_value == {"a": [1, None]}
    assert (found.args, found.kwargs) == ([], {})
    assert (found.attempts, found.worker_ids) == (1, [scenes.W1])
    assert found.enqueued_at <= found.started_at <= found.finished_at


def test_a_result_keeps_the_arguments_that_it_knows(queue: Queue) -> None:
    result = send.enqueue(3, text="y")
    row = claimed(queue)
    packed = Done.pack_result(send.module_path, scenes.W1, b"1")
    jobs.complete(queue, scenes.W1, [jobs.Completion(row.job_id, row.token, 60_000, packed)])

    result.refresh()

    assert (result.args, result.kwargs, result.return_value) == ([3], {"text": "y"}, 1)


def test_a_value_that_could_not_be_stored_is_none(queue: Queue) -> None:
    assert send.get_result(completed(queue, b"")).return_value is None


def test_a_job_that_left_nothing_does_not_exist(queue: Queue) -> None:
    job_id = completed(queue, ttl_ms=0)

    with pytest.raises(TaskResultDoesNotExist, match=f"{job_id}: no such job, or it has completed"):
        send.get_result(job_id)


@pytest.mark.parametrize("job_id", ["", "5", "JOBxyz", "0" * 32, None, 7], ids=repr)
def test_what_is_no_job_id_does_not_exist(job_id: Any) -> None:
    with pytest.raises(TaskResultDoesNotExist, match="is not a JOB id"):
        send.get_result(job_id)


@pytest.mark.parametrize("queue_name", ["default", "a queue that nobody has"])
def test_an_id_that_nobody_enqueued_does_not_exist(queue_name: str) -> None:
    with pytest.raises(TaskResultDoesNotExist, match="no such job"):
        send.get_result(ids.mint(queue_name))


def test_the_result_of_another_task_is_a_mismatch(queue: Queue) -> None:
    with pytest.raises(TaskResultMismatch):
        other.get_result(send.enqueue().id)


def test_a_dead_job_has_failed_before_and_after_the_mirror(queue: Queue) -> None:
    job_id = dead(queue)
    before = send.get_result(job_id)
    mirror(queue, "default")

    after = send.get_result(job_id)

    for found in (before, after):
        assert (found.status, found.state, found.failures, found.attempts) == (TaskResultStatus.FAILED, "dead", 1, 1)
        assert [error.exception_class for error in found.errors] == [ValueError]
        assert (found.args, found.kwargs) == ([1], {"text": "x"})
        with pytest.raises(ValueError, match="failed"):
            found.return_value  # noqa: B018
    assert after.finished_at == DeadJob.objects.get().died_at


def test_a_death_without_an_exception_has_our_error_class(queue: Queue) -> None:
    [error] = send.get_result(dead(queue, Failure("stalled", message="3 of 3 stalls"))).errors

    assert (error.exception_class, error.traceback) == (JobDied, "stalled: 3 of 3 stalls")


def test_a_discarded_job_has_failed(queue: Queue) -> None:
    job_id = dead(queue)
    mirror(queue, "default")
    discard([DeadJob.objects.get().pk], by="ada")

    found = send.get_result(job_id)

    assert (found.status, found.state) == (TaskResultStatus.FAILED, "discarded")


def test_a_requeued_job_is_ready_again(queue: Queue) -> None:
    job_id = dead(queue)
    mirror(queue, "default")
    requeue([DeadJob.objects.get().pk], by="ada")

    found = send.get_result(job_id)

    assert (found.status, found.state, found.failures) == (TaskResultStatus.READY, "pending", 0)


def test_a_requeued_job_that_the_server_has_yet_to_take_is_ready(queue: Queue) -> None:
    job_id = dead(queue)
    mirror(queue, "default")
    DeadJob.objects.update(state=DeadJob.State.REQUEUED)
    park_revivals(DeadJob.objects.all())

    found = send.get_result(job_id)

    assert (found.status, found.state) == (TaskResultStatus.READY, "parked")


def test_a_requeued_job_that_completed_and_expired_does_not_exist(queue: Queue) -> None:
    job_id = dead(queue)
    mirror(queue, "default")
    DeadJob.objects.update(state=DeadJob.State.REQUEUED)

    with pytest.raises(TaskResultDoesNotExist):
        send.get_result(job_id)


def test_a_parked_job_is_ready(queue: Queue) -> None:
    job = jobs.NewJob(ids.mint("emails"), Message(send.module_path, b'[[4],{"text":"z"}]').pack(), priority=3)
    park("default", "emails", job, "down")

    found = send.get_result(job.job_id)

    assert (found.status, found.state) == (TaskResultStatus.READY, "parked")
    assert (found.args, found.kwargs) == ([4], {"text": "z"})
    assert found.task == send.using(queue_name="emails", priority=3)
    assert OutboxJob.objects.count() == 1


def test_the_queue_of_a_death_may_have_left_the_settings(queue: Queue, emq: Settings) -> None:
    job_id = dead(queue)
    mirror(queue, "default")
    DeadJob.objects.update(queue="gone")

    assert send.get_result(job_id).task == send


def test_a_job_of_a_task_that_is_not_here_says_so(queue: Queue) -> None:
    [job_id] = scenes.enqueued(queue)

    with pytest.raises(UnresolvableTask, match=r"app\.tasks\.send"):
        task_backends["default"].get_result(job_id)


@pytest.mark.broken_keyspace
def test_a_row_of_a_newer_release_is_refused(queue: Queue) -> None:
    job_id = send.enqueue().id
    queue.client.set(queue.keys.job(job_id), b"\x07later")

    with pytest.raises(UnsupportedServer, match=r"unknown format.*upgrade this process"):
        send.get_result(job_id)


def test_refreshing_copies_our_own_fields_too(queue: Queue) -> None:
    result = send.enqueue()
    row = claimed(queue)
    jobs.retry(queue, scenes.W1, [jobs.Retry(row.job_id, row.token, scenes.SOON, BOOM)])

    asyncio.run(result.arefresh())

    assert (result.state, result.failures) == ("scheduled", 1)


def test_a_result_is_found_from_coroutines(queue: Queue) -> None:
    job_id = send.enqueue(3).id

    assert asyncio.run(send.aget_result(job_id)).args == [3]


def test_without_time_zones_instants_are_naive(queue: Queue, emq: Settings) -> None:
    emq.USE_TZ = False

    result = send.enqueue()
    found = send.get_result(result.id)

    assert found.enqueued_at.tzinfo is None
    assert abs(found.enqueued_at - datetime.now()) < timedelta(seconds=60)
    assert result.enqueued_at.tzinfo is None


def test_a_server_that_is_down_is_no_missing_result(emq: Settings) -> None:
    emq.CACHES = {**emq.CACHES, "emq": {**emq.CACHES["emq"], "LOCATION": "redis://127.0.0.1:1/0"}}

    with pytest.raises(BusUnavailable):
        send.get_result(ids.mint("default"))


def test_a_missing_job_costs_two_queries_and_a_waiting_one_none(queue: Queue, django_assert_num_queries: Any) -> None:
    result = send.enqueue()
    with django_assert_num_queries(0):
        result.refresh()
    with django_assert_num_queries(2), pytest.raises(TaskResultDoesNotExist):
        send.get_result(ids.mint("default"))


def test_a_running_job_is_described_without_asking_the_server_again(queue: Queue) -> None:
    send.enqueue(4, text="x")
    row = claimed(queue, starting=0)

    result = from_row(send, row, ([4], {"text": "x"}))
    started(result, scenes.W1)
    context = make_context(result, row, queue)

    assert (result.status, result.state, result.attempts) == (TaskResultStatus.RUNNING, "active", 1)
    assert (context.job_id, context.fence, context.attempt, context.task_result) == (
        row.job_id,
        row.token.fence,
        1,
        result,
    )
    succeeded(result, 5)
    assert (result.status, result.return_value, result.is_finished) == (TaskResultStatus.SUCCESSFUL, 5, True)
    failed(result, KeyError("k"))
    assert (result.status, result.errors[0].exception_class) == (TaskResultStatus.FAILED, KeyError)
    assert "KeyError: 'k'" in result.errors[0].traceback


def test_the_results_of_two_aliases_are_kept_apart(emq: Settings, prefix: str) -> None:
    second = {**emq.TASKS["default"], "OPTIONS": {"cache": "emq", "prefix": f"{prefix}b"}}
    emq.TASKS = {**emq.TASKS, "second": second}
    result = send.using(backend="second").enqueue()

    assert task_backends["second"].get_result(result.id).backend == "second"
    with pytest.raises(TaskResultDoesNotExist):
        task_backends["default"].get_result(result.id)
