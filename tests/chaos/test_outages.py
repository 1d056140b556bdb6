"""The server or the database is away: before the start, while jobs run, and while they die."""

import signal
from pathlib import Path

import pytest

from echomq_django import enqueue_many
from echomq_django.bus.queue import Queue
from echomq_django.bus.queue import count as count_jobs
from echomq_django.embedded import Valkey
from echomq_django.models import DeadJob
from tests.chaos import ledger, seen, tasks
from tests.chaos.crew import Crew
from tests.chaos.proxy import Proxy, database_url, redis_url
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]
pytestmark = pytest.mark.parametrize("lease", [60.0])

USAGE = 2


def more_attempts(proxy: Proxy, number: int) -> None:
    """Wait until somebody has tried so many times more to get through."""
    before = proxy.attempts
    until(lambda: proxy.attempts >= before + number)


def test_a_worker_waits_for_a_server_that_is_not_there_yet_and_says_so_once(
    crew: Crew, queue: Queue, to_server: Proxy
) -> None:
    job_id = tasks.work.enqueue().id
    to_server.cut()
    worker = crew.start(EMQ_TEST_REDIS_URL=redis_url(to_server))
    until(lambda: to_server.attempts >= 5)
    to_server.heal()

    seen.done(queue, job_id)
    assert worker.log.count("waiting for the server") == 1
    assert "Traceback" not in worker.log


def test_a_worker_that_waits_for_the_server_can_be_stopped(crew: Crew, queue: Queue, to_server: Proxy) -> None:
    to_server.cut()
    worker = crew.start(EMQ_TEST_REDIS_URL=redis_url(to_server)).logged("waiting for the server")

    assert worker.stop() == 0


def test_a_worker_that_is_to_stop_while_the_server_is_gone_does_not_say_that_it_is_back(
    crew: Crew, queue: Queue, to_server: Proxy, gate: Path
) -> None:
    running = tasks.hold.enqueue(str(gate)).id
    worker = crew.start("--threads", "2", EMQ_TEST_REDIS_URL=redis_url(to_server))
    until(lambda: ledger.starts(running))
    to_server.cut()
    worker.logged("the server is gone", 2)

    worker.tell(signal.SIGTERM)
    worker.logged("stopping")
    more_attempts(to_server, 5)
    assert "the server is back" not in worker.log
    to_server.heal()
    gate.touch()

    assert worker.exit_code() == 0
    seen.done(queue, running)


def test_a_wrong_password_is_a_usage_error_and_is_not_shown(crew: Crew, queue: Queue, valkey: Valkey) -> None:
    worker = crew.start(EMQ_TEST_REDIS_URL=f"redis://somebody:secret@127.0.0.1:{valkey.port}/0")

    assert worker.exit_code() == USAGE
    assert "check password" in worker.log
    assert "secret" not in worker.log
    assert "Traceback" not in worker.log


def test_when_the_server_is_gone_and_back_a_worker_ends_what_it_ran_and_goes_on_with_one_line_per_change(
    crew: Crew, queue: Queue, to_server: Proxy, gate: Path
) -> None:
    running = tasks.hold.enqueue(str(gate)).id
    worker = crew.start(EMQ_TEST_REDIS_URL=redis_url(to_server))
    until(lambda: ledger.starts(running))
    before = worker.pids

    to_server.cut()
    worker.logged("the server is gone", 2)  # the supervisor at its next beat, its busy child when it takes stock
    more_attempts(to_server, 5)
    waiting = tasks.work.enqueue().id
    gate.touch()
    more_attempts(to_server, 5)
    assert "the server is back" not in worker.log
    assert ledger.starts(waiting) == 0
    to_server.heal()

    ends = seen.done(queue, running, waiting)
    worker.logged("the server is back", 2)
    assert [end.attempts for end in ends] == [1, 1]
    assert worker.log.count("the server is gone") == 2
    assert worker.log.count("the server is back") == 2
    assert "Traceback" not in worker.log
    assert worker.pids == before


def test_jobs_that_die_while_the_database_is_away_are_mirrored_when_it_is_back_and_work_goes_on(
    crew: Crew, queue: Queue, to_database: Proxy
) -> None:
    worker = crew.start(EMQ_TEST_DATABASE_URL=database_url(to_database))
    seen.done(queue, tasks.work.enqueue().id)
    before = worker.pids

    to_database.cut()
    failing = enqueue_many(tasks.fail_at_once, [((), {})] * 5)
    until(lambda: count_jobs(queue).dead == len(failing))
    worker.logged("dead jobs and schedules wait, trying")
    more_attempts(to_database, 3)
    seen.done(queue, tasks.nothing.enqueue().id)
    assert not DeadJob.objects.exists()
    to_database.heal()

    until(lambda: DeadJob.objects.count() == len(failing))
    worker.logged("dead jobs and schedules wait no more")
    until(lambda: count_jobs(queue).dead == 0)
    assert set(DeadJob.objects.values_list("job_id", flat=True)) == set(failing)
    assert worker.log.count("dead jobs and schedules wait, trying") == 1
    seen.done(queue, tasks.work.enqueue().id)
    assert worker.pids == before


def test_a_worker_starts_without_the_database_and_runs_what_does_not_need_it(
    crew: Crew, queue: Queue, to_database: Proxy
) -> None:
    to_database.cut()
    worker = crew.start(EMQ_TEST_DATABASE_URL=database_url(to_database))

    seen.done(queue, tasks.nothing.enqueue().id)
    assert "does not answer, dead jobs wait for it" in worker.log
    to_database.heal()
    seen.done(queue, tasks.work.enqueue().id)
