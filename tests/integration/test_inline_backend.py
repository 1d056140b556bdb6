"""The backend for test suites: no server, the same checks, and the job runs where it would have been pushed."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core import checks
from django.db import transaction
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from echomq_django import JobContext, enqueue_many, task
from echomq_django.bus import ids
from echomq_django.exceptions import InvalidArguments, InvalidName, UnknownQueue, UnresolvableTask
from echomq_django.framework import (
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

ran: list[Any] = []


@pytest.fixture(autouse=True)
def inline(settings: Settings) -> None:
    ran.clear()
    settings.TASKS = {
        "default": {
            "BACKEND": "echomq_django.testing.InlineBackend",
            "QUEUES": ["default", "emails"],
            "OPTIONS": {"lease": 5},
        }
    }
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}


@task
def note(*args: Any, **kwargs: Any) -> list[Any]:
    ran.append((args, kwargs))
    return [*args]


@task(takes_context=True, queue_name="emails", max_failures=3)
def with_context(context: JobContext, number: int) -> str:
    ran.append((context.job_id, context.fence, context.attempt, context.task_result.status))
    return context.job_id


@task
async def patient(number: int) -> int:
    await asyncio.sleep(0)
    return number + 1


@task
def failing(number: int) -> None:
    raise ValueError(f"no {number}")


@task
def leaving() -> None:
    raise SystemExit(3)


@task
def interrupted() -> None:
    raise KeyboardInterrupt


@task
def unstorable() -> object:
    return object()


@task
def outer() -> str:
    return note.enqueue("from inside").id


def test_a_job_runs_at_once_and_its_result_is_complete() -> None:
    result = note.enqueue(1, key=[2])

    assert ran == [((1,), {"key": [2]})]
    assert ids.check(result.id)
    assert (result.status, result.state, result.return_value) == (TaskResultStatus.SUCCESSFUL, "completed", [1])
    assert (result.attempts, result.worker_ids, result.errors) == (1, ["inline"], [])
    assert result.enqueued_at <= result.started_at <= result.finished_at


def test_a_handler_gets_the_context() -> None:
    result = with_context.enqueue(1)

    assert ran == [(result.id, 1, 1, TaskResultStatus.RUNNING)]
    assert result.return_value == result.id


def test_a_handler_gets_what_json_brings_back_and_not_the_caller_s_objects() -> None:
    argument = {"a": [1]}
    note.enqueue(argument)

    [((got,), _)] = ran
    assert got == argument
    assert got is not argument
    assert got["a"] is not argument["a"]


def test_coroutines_run_from_plain_code() -> None:
    assert patient.enqueue(1).return_value == 2


def test_coroutines_run_from_coroutines() -> None:
    async def view() -> tuple[Any, Any]:
        return (await patient.aenqueue(1)).return_value, (await note.aenqueue(5)).return_value

    assert asyncio.run(view()) == (2, [5])


@pytest.mark.parametrize(
    ("job", "kind"), [(failing.using(priority=1), ValueError), (leaving, SystemExit)], ids=["error", "exit"]
)
def test_a_handler_that_raises_makes_the_result_failed(job: Any, kind: type[BaseException]) -> None:
    result = job.enqueue(7) if kind is ValueError else job.enqueue()

    assert (result.status, result.state) == (TaskResultStatus.FAILED, "dead")
    [error] = result.errors
    assert error.exception_class is kind
    assert "Traceback" in error.traceback


def test_an_interrupt_reaches_the_one_who_pressed_the_keys() -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted.enqueue()


def test_a_value_that_is_no_json_is_not_stored_as_with_a_worker(caplog: pytest.LogCaptureFixture) -> None:
    result = unstorable.enqueue()

    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, None)
    assert "result not stored" in caplog.text


def test_a_job_may_enqueue_another_one() -> None:
    inner = outer.enqueue().return_value

    assert note.get_result(inner).return_value == ["from inside"]


@pytest.mark.parametrize(
    ("enqueue", "error"),
    [
        (lambda: note.enqueue((1,)), InvalidArguments),
        (lambda: note.enqueue({1: 2}), InvalidArguments),
        (lambda: note.using(lane=lambda value: "x" * 200).enqueue(1), InvalidName),
        (lambda: note.using(queue_name="nope").enqueue(1), UnknownQueue),
        (lambda: task(helper).enqueue(), UnresolvableTask),
    ],
    ids=["tuple", "key", "lane", "queue", "path"],
)
def test_what_the_real_backend_refuses_is_refused(enqueue: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        enqueue()

    assert ran == []


def helper() -> None: ...


def test_run_after_does_not_delay() -> None:
    result = note.using(run_after=datetime.now(UTC) + timedelta(days=1)).enqueue(1)

    assert result.status == TaskResultStatus.SUCCESSFUL


def test_in_a_transaction_the_job_runs_after_the_commit() -> None:
    with transaction.atomic():
        result = note.enqueue(1)
        assert ran == []
        assert (result.status, result.state) == (TaskResultStatus.READY, "uncommitted")

    assert ran == [((1,), {})]
    assert result.return_value == [1]


def test_a_rolled_back_transaction_runs_nothing() -> None:
    with transaction.atomic():
        note.enqueue(1)
        transaction.set_rollback(True)

    assert ran == []


def test_an_async_enqueue_waits_for_the_commit_of_its_caller() -> None:
    with transaction.atomic():
        async_to_sync(note.aenqueue)(1)
        assert ran == []

    assert ran == [((1,), {})]


@pytest.mark.django_db(transaction=False, databases=["default"])
def test_captured_callbacks_run_the_jobs(django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        result = note.enqueue(1)
        assert ran == []

    assert ran == [((1,), {})]
    assert result.return_value == [1]


def test_many_jobs_run_in_order() -> None:
    minted = enqueue_many(note, [((n,), {}) for n in range(3)])

    assert ran == [((n,), {}) for n in range(3)]
    assert [note.get_result(one).return_value for one in minted] == [[0], [1], [2]]


def test_a_job_that_never_ran_does_not_exist() -> None:
    with pytest.raises(TaskResultDoesNotExist):
        note.get_result(ids.mint("default"))


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """Which signals came, with the status that they showed."""
    seen: list[str] = []

    def listener(name: str) -> Any:
        return lambda sender, task_result, **kwargs: seen.append(f"{name} {task_result.status} {sender.__name__}")

    signals = {"enqueued": task_enqueued, "started": task_started, "finished": task_finished}
    receivers = [(signal, listener(name)) for name, signal in signals.items()]
    for signal, receiver in receivers:
        signal.connect(receiver)
    yield seen
    for signal, receiver in receivers:
        signal.disconnect(receiver)


@pytest.mark.parametrize(("job", "end"), [(note, "SUCCESSFUL"), (failing, "FAILED")], ids=["good", "bad"])
def test_django_s_signals_are_sent(heard: list[str], job: Any, end: str) -> None:
    job.enqueue(1)

    assert heard == ["enqueued READY InlineBackend", "started RUNNING InlineBackend", f"finished {end} InlineBackend"]


def test_only_the_last_results_are_kept() -> None:
    first = note.enqueue(0).id
    enqueue_many(note, [((n,), {}) for n in range(1_000)])

    with pytest.raises(TaskResultDoesNotExist):
        note.get_result(first)


def test_its_settings_are_checked_too(settings: Settings) -> None:
    assert [problem for problem in checks.run_checks() if str(problem.id).startswith("echomq_django.E")] == []
    settings.TASKS = {"default": {"BACKEND": "echomq_django.testing.InlineBackend", "OPTIONS": {"lease": 0}}}

    assert [problem.id for problem in task_backends["default"].check()] == ["echomq_django.E001"]
