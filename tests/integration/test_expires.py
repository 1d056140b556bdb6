"""A job that nobody starts in time dies instead of running late."""

import pytest

from echomq_django.bus.queue import Queue
from echomq_django.floor.dead_letters import requeue
from echomq_django.models import DeadJob
from tests.bus.scenes import server_ms
from tests.chaos import ledger, seen, tasks
from tests.chaos.crew import Crew
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]
pytestmark = pytest.mark.parametrize("lease", [60.0])


def late(queue: Queue) -> str:
    """Return a job whose time has passed."""
    job_id = tasks.work.using(expires=0.05).enqueue().id
    enqueued_at = seen.row(queue, job_id).enqueued_at
    until(lambda: server_ms(queue) > enqueued_at + 50)
    return job_id


def test_a_job_that_is_too_late_is_dead_and_one_that_has_time_runs(crew: Crew, queue: Queue) -> None:
    job_id, in_time = late(queue), tasks.work.using(expires=600).enqueue().id
    crew.start()

    dead = until(lambda: DeadJob.objects.filter(job_id=job_id).first())
    assert (dead.reason, dead.failures, dead.stalled, ledger.starts(job_id)) == ("expired", 0, 0, 0)
    seen.done(queue, in_time)
    result = tasks.work.get_result(job_id)
    assert (result.status.value, result.state) == ("FAILED", "dead")


def test_a_job_that_an_operator_sends_back_has_all_the_time_it_needs(crew: Crew, queue: Queue) -> None:
    job_id = late(queue)
    crew.start()
    dead = until(lambda: DeadJob.objects.filter(job_id=job_id).first())

    requeue([dead.pk], "ana")

    seen.done(queue, job_id)
    assert ledger.effect(job_id) is not None
