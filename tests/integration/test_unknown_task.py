"""Jobs whose task is not there: not yet, while a deploy is under way, or not any more."""

import pytest

from echomq_django.bus import ids, jobs
from echomq_django.bus.jobs import NewJob, Release
from echomq_django.bus.message import Message
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import Failure, State
from echomq_django.bus.schedule import promote
from echomq_django.floor.dead_letters import requeue
from echomq_django.models import DeadJob
from tests.bus.scenes import SOON, make_due, nonce, server_ms
from tests.chaos import ledger, seen
from tests.chaos.crew import Crew
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]
pytestmark = pytest.mark.parametrize("lease", [60.0])

PATH = "tests.chaos.release.new"
HOUR = 3_600_000


def enqueued(queue: Queue, delay_ms: int = 0) -> str:
    """Enqueue a job of the newer release."""
    job_id = ids.mint(queue.name)
    jobs.enqueue(queue, [NewJob(job_id, Message(PATH, b"[[],{}]").pack(), delay_ms=delay_ms)])
    return job_id


def put_back(queue: Queue, job_id: str, times: int) -> None:
    """Wait until a job was claimed and put back so many times."""
    until(lambda: seen.row(queue, job_id).attempts == times and seen.is_in(queue, job_id, State.SCHEDULED))


def let_pass(queue: Queue, job_id: str, ms: int) -> None:
    """Let a job that was put back have been so since `ms` earlier; no worker may run."""
    waiting = seen.row(queue, job_id)
    make_due(queue, job_id)
    promote(queue)
    [row] = jobs.claim(queue, "host:1:test", nonce(), 1)
    assert row.job_id == job_id
    earlier = Failure(waiting.failure.reason, since=waiting.failure.since - ms)
    jobs.release(queue, "host:1:test", [Release(job_id, row.token, SOON, earlier)])


def test_a_job_waits_at_no_cost_for_the_release_that_knows_its_task(crew: Crew, queue: Queue) -> None:
    """C37, SuperCoopBerlin/tapir#485."""
    job_id = enqueued(queue)
    old = [crew.start(), crew.start()]
    for times in range(1, 4):
        put_back(queue, job_id, times)
        assert seen.due_at(queue, job_id) > server_ms(queue)
        if times < 3:
            make_due(queue, job_id)

    row = seen.row(queue, job_id)
    assert (row.failures, row.stalled) == (0, 0)
    assert (row.failure.reason, row.failure.error_class) == (
        "unknown task",
        "echomq_django.exceptions.UnresolvableTask",
    )
    assert row.failure.message.startswith(f"no task at '{PATH}'")
    assert any(f"job {job_id} waits for a worker that knows its task: no task at" in worker.log for worker in old)
    for worker in old:
        worker.stop()

    crew.start(EMQ_TEST_RELEASE="new")
    make_due(queue, job_id)
    [end] = seen.done(queue, job_id)
    assert (end.attempts, ledger.starts(job_id)) == (4, 1)


def test_a_task_that_was_removed_kills_its_jobs_after_an_hour_and_a_redeploy_revives_them(
    crew: Crew, queue: Queue
) -> None:
    """C37, SuperCoopBerlin/tapir#485."""
    waiting, delayed = enqueued(queue), enqueued(queue, delay_ms=SOON)
    worker = crew.start()
    put_back(queue, waiting, 1)
    make_due(queue, delayed)
    put_back(queue, delayed, 1)
    worker.stop()
    let_pass(queue, waiting, HOUR - 60_000)
    let_pass(queue, delayed, HOUR - 60_000)

    worker = crew.start()
    make_due(queue, waiting, delayed)
    put_back(queue, waiting, 3)
    put_back(queue, delayed, 3)
    worker.stop()
    let_pass(queue, waiting, 60_000)
    let_pass(queue, delayed, 60_000)

    worker = crew.start()
    make_due(queue, waiting, delayed)
    until(lambda: DeadJob.objects.count() == 2)
    for dead in DeadJob.objects.all():
        assert (dead.reason, dead.failures, dead.stalled) == ("unknown task", 0, 0)
        assert dead.error_message.startswith(f"no task at '{PATH}'")
    worker.stop()

    crew.start(EMQ_TEST_RELEASE="new")
    assert requeue(DeadJob.objects.values_list("pk", flat=True), "ana") == 2
    seen.done(queue, waiting, delayed)
    assert ledger.effects([waiting, delayed]) == 2


def test_a_task_that_was_unknown_long_ago_has_its_whole_hour_again(crew: Crew, queue: Queue) -> None:
    job_id = enqueued(queue)
    worker = crew.start()
    put_back(queue, job_id, 1)
    worker.stop()
    let_pass(queue, job_id, HOUR)
    make_due(queue, job_id)
    promote(queue)
    [row] = jobs.claim(queue, "host:1:test", nonce(), 1)
    jobs.retry(queue, "host:1:test", [jobs.Retry(job_id, row.token, 0, Failure("failed"))])

    crew.start()
    put_back(queue, job_id, 4)
    assert seen.row(queue, job_id).failure.since > server_ms(queue) - 60_000
