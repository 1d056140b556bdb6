"""The link between a worker and the server falls silent without being closed, or does not carry one of its commands."""

from pathlib import Path

import pytest

from echomq_django.bus.queue import Queue
from echomq_django.bus.scripts import Script
from tests.bus.scenes import server_ms
from tests.chaos import ledger, seen, tasks
from tests.chaos.crew import Crew
from tests.chaos.proxy import Proxy, redis_url
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]


@pytest.mark.parametrize("lease", [60.0])  # longer than any test waits
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


def test_a_job_behind_a_dead_link_is_taken_over_and_what_is_said_of_it_when_the_link_is_back_is_refused(
    crew: Crew, queue: Queue, to_server: Proxy, tmp_path: Path
) -> None:
    """C17, redis/redis-py#1305."""
    gate, later = tmp_path / "gate", tmp_path / "later"
    running = tasks.hold_each_time.enqueue(str(gate), str(later)).id
    cut_off = crew.start(EMQ_TEST_REDIS_URL=redis_url(to_server))
    until(lambda: ledger.starts(running))
    before = cut_off.pids

    to_server.silence()
    heir = crew.start()
    until(lambda: ledger.starts(running) == 2)
    gate.touch()
    cut_off.logged("the server is gone", 2)
    to_server.heal()

    cut_off.logged("its late Completion is refused")
    later.touch()
    [end] = seen.done(queue, running)
    assert (end.attempts, ledger.starts(running), seen.stalls(queue, running)) == (2, 2, 1)
    assert heir.stop() == 0
    seen.done(queue, tasks.work.enqueue().id)
    assert cut_off.pids == before


def test_a_job_that_has_ended_keeps_its_lease_for_as_long_as_nobody_can_be_told(
    crew: Crew, queue: Queue, to_server: Proxy, lease: float, gate: Path
) -> None:
    ended = tasks.hold.enqueue(str(gate)).id
    worker = crew.start(EMQ_TEST_REDIS_URL=redis_url(to_server))
    until(lambda: ledger.starts(ended))

    to_server.stop(Script("jobs/complete").sha.encode())
    gate.touch()
    worker.logged("the server is gone")
    first_end = seen.active(queue)[ended]
    until(lambda: server_ms(queue) > first_end + 1000 * lease)
    to_server.heal()

    [end] = seen.done(queue, ended)
    assert (end.attempts, ledger.starts(ended), seen.stalls(queue, ended)) == (1, 1, 0)
    assert worker.log.count("the server is gone") == 1
