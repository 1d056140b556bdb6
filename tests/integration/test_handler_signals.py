"""What a handler says by raising `Retry` or `Discard`."""

import pytest

from echomq_django.bus.queue import Queue
from echomq_django.bus.row import State
from echomq_django.exceptions import Discard, Retry
from echomq_django.models import DeadJob
from tests.bus.scenes import server_ms
from tests.chaos import flow_tasks, ledger, seen
from tests.chaos.crew import Crew
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]
pytestmark = pytest.mark.parametrize("lease", [60.0])


@pytest.mark.parametrize(("after", "earliest", "latest"), [(500, 400_000, 500_000), (None, 0, 12_000)])
def test_retry_sends_a_job_back_for_the_time_that_it_names_or_by_the_back_off(
    crew: Crew, queue: Queue, after: float | None, earliest: int, latest: int
) -> None:
    job_id = flow_tasks.ask_for_retry.enqueue(after).id
    crew.start()

    until(lambda: seen.is_in(queue, job_id, State.SCHEDULED))
    assert earliest < seen.due_at(queue, job_id) - server_ms(queue) <= latest
    row = seen.row(queue, job_id)
    assert (row.failures, row.stalled) == (1, 0)
    assert (row.failure.reason, row.failure.message) == ("failed", "the other side is busy")


def test_retry_is_tried_again_whatever_retry_on_says(crew: Crew, queue: Queue) -> None:
    job_id = flow_tasks.ask_for_retry.enqueue(0).id
    crew.start()

    seen.done(queue, job_id)
    assert ledger.starts(job_id) == 2


def test_retry_counts_as_a_failure_and_the_last_one_kills(crew: Crew, queue: Queue) -> None:
    job_id = flow_tasks.ask_for_retry.using(max_failures=1).enqueue(0).id
    crew.start()

    dead = until(lambda: DeadJob.objects.filter(job_id=job_id).first())
    assert (dead.reason, dead.failures) == ("failed", 1)
    assert dead.error_class == f"{Retry.__module__}.{Retry.__qualname__}"


def test_discard_gives_a_job_up_at_its_first_failure(crew: Crew, queue: Queue) -> None:
    job_id = flow_tasks.give_up.enqueue().id
    crew.start()

    dead = until(lambda: DeadJob.objects.filter(job_id=job_id).first())
    assert (dead.reason, dead.state, dead.failures, ledger.starts(job_id)) == ("discarded", "dead", 1, 1)
    assert (dead.error_class, dead.error_message) == (
        f"{Discard.__module__}.{Discard.__qualname__}",
        "the order is gone",
    )
