"""The link between a worker and the server loses replies, or falls silent without being closed."""

from pathlib import Path

import pytest

from echomq_django import enqueue_many
from echomq_django.bus import jobs
from echomq_django.bus.queue import Queue
from echomq_django.bus.scripts import Script
from tests.chaos import ledger, seen, tasks
from tests.chaos.crew import Crew
from tests.chaos.proxy import Proxy, redis_url
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]
pytestmark = pytest.mark.parametrize("lease", [60.0])  # longer than any test waits


def test_an_idle_worker_notices_that_its_link_is_dead_and_takes_the_job_over_a_new_one(
    crew: Crew, queue: Queue, to_server: Proxy
) -> None:
    """C17, redis/redis-py#1305."""
    worker = crew.start(EMQ_TEST_REDIS_URL=redis_url(to_server))
    seen.done(queue, tasks.work.enqueue().id)
    before = worker.pids

    to_server.silence()
    job_id = tasks.work.enqueue().id
    worker.logged("the server is gone", 2)
    assert ledger.starts(job_id) == 0
    to_server.heal()

    [end] = seen.done(queue, job_id)
    assert (end.attempts, ledger.starts(job_id), seen.stalls(queue, job_id)) == (1, 1, 0)
    worker.logged("the server is back", 2)
    assert worker.pids == before
