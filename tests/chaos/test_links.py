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


def test_jobs_whose_claim_was_never_answered_wait_for_no_lease_and_are_charged_no_stall(
    crew: Crew, queue: Queue, to_server: Proxy
) -> None:
    """C15, redis/redis-py#261."""
    job_ids = enqueue_many(tasks.work, [((), {})] * 100)
    to_server.lose_replies(Script("jobs/claim").sha.encode(), every=4)
    worker = crew.start("--threads", "2", EMQ_TEST_REDIS_URL=redis_url(to_server))

    ends = seen.done(queue, *job_ids)

    assert to_server.lost >= 5
    assert [end.attempts for end in ends] == [1] * len(ends)
    assert [ledger.starts(job_id) for job_id in job_ids] == [1] * len(job_ids)
    assert sum(seen.stalls(queue, job_id) for job_id in job_ids) == 0
    assert seen.active(queue) == {}
    assert worker.stop() == 0


def test_a_lease_that_a_child_knows_nothing_of_is_handed_back(crew: Crew, queue: Queue, gate: Path) -> None:
    running = tasks.hold.enqueue(str(gate)).id
    worker = crew.start()
    until(lambda: ledger.starts(running))
    stray = tasks.work.enqueue().id
    [row] = jobs.claim(queue, seen.row(queue, running).holder, jobs.new_nonce(), 1)
    assert row.job_id == stray

    worker.logged("handing back 1 jobs that were held by nobody")
    gate.touch()

    seen.done(queue, running, stray)
    assert (ledger.starts(stray), seen.stalls(queue, stray), ledger.starts(running)) == (1, 0, 1)


def test_ends_that_were_never_acknowledged_are_said_again_and_count_once(
    crew: Crew, queue: Queue, to_server: Proxy
) -> None:
    job_ids = enqueue_many(tasks.work, [((), {})] * 60)
    to_server.lose_replies(Script("jobs/complete").sha.encode(), every=4)
    worker = crew.start("--threads", "2", EMQ_TEST_REDIS_URL=redis_url(to_server))

    ends = seen.done(queue, *job_ids)

    assert to_server.lost >= 5
    assert worker.stop() == 0
    assert [end.attempts for end in ends] == [1] * len(ends)
    assert [ledger.starts(job_id) for job_id in job_ids] == [1] * len(job_ids)
    assert "is refused" not in worker.log
    assert seen.active(queue) == {}


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
