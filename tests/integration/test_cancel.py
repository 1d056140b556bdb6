"""Jobs that somebody calls off, before they run and while they do; and what running jobs tell."""

from typing import Any, cast

import pytest
from pytest_django import Settings

from echomq_django.backend import EchoMQBackend
from echomq_django.bus import ids
from echomq_django.bus.queue import Queue
from echomq_django.exceptions import JobCancelled
from echomq_django.framework import TaskResultStatus
from tests.chaos import flow_tasks, ledger, seen, tasks
from tests.chaos.crew import Crew
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]
pytestmark = pytest.mark.parametrize("lease", [60.0])


def test_a_job_that_waits_is_over_at_once_and_never_starts(crew: Crew, queue: Queue) -> None:
    result, other = tasks.work.enqueue(), tasks.work.enqueue()

    assert result.cancel() is True
    result.refresh()
    assert (result.status, result.state) == (TaskResultStatus.FAILED, "cancelled")
    assert result.errors[0].exception_class is JobCancelled
    assert result.cancel() is False

    assert crew.start("--burst").exit_code() == 0
    assert seen.is_done(queue, other.id)
    assert ledger.starts(result.id) == 0


def test_a_job_that_is_done_or_unknown_can_not_be_cancelled(crew: Crew, queue: Queue) -> None:
    result = tasks.work.enqueue()
    crew.start()
    seen.done(queue, result.id)

    assert result.cancel() is False
    assert EchoMQBackend("default", {}).cancel(ids.mint("default")) is False
    result.refresh()
    assert result.state == "completed"


@pytest.mark.parametrize(("ending", "state"), [("well", "completed"), ("retry", "cancelled")])
def test_a_running_job_sees_that_it_is_cancelled_and_gets_no_other_turn(
    crew: Crew, queue: Queue, ending: str, state: str
) -> None:
    result = flow_tasks.work_until_cancelled.enqueue(ending)
    crew.start()
    until(lambda: ledger.starts(result.id))

    assert result.cancel() is True

    until(lambda: ledger.effect(result.id))
    seen.done(queue, result.id)
    result.refresh()
    assert (result.state, ledger.starts(result.id)) == (state, 1)


def test_what_a_handler_tells_of_its_progress_is_kept(crew: Crew, queue: Queue) -> None:
    job_id = flow_tasks.report.enqueue().id
    crew.start()
    seen.done(queue, job_id)

    client = cast(Any, queue.client)
    assert client.get(queue.keys.progress(job_id)) == b"3\x004"
    assert [line.rpartition(b"\0")[2] for line in client.lrange(queue.keys.log(job_id), 0, -1)] == [b"begins", b"ends"]
    assert all(client.ttl(key) > 0 for key in (queue.keys.progress(job_id), queue.keys.log(job_id)))


def test_the_backend_for_test_suites_has_nothing_left_to_cancel(lease: float, settings: Settings) -> None:
    settings.TASKS = {"default": {"BACKEND": "echomq_django.testing.InlineBackend"}}

    result = flow_tasks.report.enqueue()

    assert (result.status, result.cancel()) == (TaskResultStatus.SUCCESSFUL, False)
