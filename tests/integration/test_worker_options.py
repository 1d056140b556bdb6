"""The options of `emq_worker`: which queues it serves in which order, and when it leaves by itself."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from echomq_django import enqueue_many
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import State
from echomq_django.connection import get_bus
from tests.chaos import ledger, seen, tasks
from tests.chaos.crew import Crew
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]
pytestmark = pytest.mark.parametrize("lease", [60.0])

GAVE_UP, USAGE = 1, 2


@pytest.fixture
def both(crew: Crew) -> tuple[list[str], list[str]]:
    """Nine jobs in each of two queues: the ids in `default`, and those in `emails`."""
    calls: list[tuple[tuple[()], dict[str, object]]] = [((), {})] * 9
    return enqueue_many(tasks.work, calls), enqueue_many(tasks.work.using(queue_name="emails"), calls)


def test_with_burst_a_worker_leaves_when_all_jobs_are_done_and_does_not_wait_for_later_ones(
    crew: Crew, queue: Queue
) -> None:
    job_ids = enqueue_many(tasks.work, [((0.01, 0.02), {})] * 30)
    later = tasks.work.using(run_after=timezone.now() + timedelta(hours=1)).enqueue().id

    assert crew.start("--burst", "--threads", "2").exit_code() == 0

    assert all(seen.is_done(queue, job_id) for job_id in job_ids)
    assert seen.is_in(queue, later, State.SCHEDULED)


def test_with_burst_a_worker_waits_for_what_another_one_runs(crew: Crew, queue: Queue, gate: Path) -> None:
    running = tasks.hold.enqueue(str(gate)).id
    crew.start()
    until(lambda: ledger.starts(running))
    quick = tasks.work.enqueue().id

    worker = crew.start("--burst").ready()
    seen.done(queue, quick)
    seen.beats(queue, 5)  # of both workers
    assert "nothing is left to do" not in worker.log
    gate.touch()

    assert worker.exit_code() == 0
    assert seen.is_done(queue, running)


def test_with_max_jobs_children_are_replaced_and_no_job_is_lost_or_repeated(crew: Crew, queue: Queue) -> None:
    job_ids = enqueue_many(tasks.work, [((), {})] * 40)

    assert crew.start("--max-jobs", "5", "--threads", "2", "--burst").exit_code() == 0

    assert all(seen.is_done(queue, job_id) for job_id in job_ids)
    starts = [pid for job_id in job_ids for pid in ledger.pids(job_id)]
    assert len(starts) == len(job_ids)
    assert len(set(starts)) >= 4


def test_with_max_memory_a_child_that_has_grown_is_replaced_and_no_job_is_lost_or_repeated(
    crew: Crew, queue: Queue
) -> None:
    job_ids = enqueue_many(tasks.grow, [((200,), {})] * 3)

    assert crew.start("--max-memory", "250", "--burst").exit_code() == 0

    assert all(seen.is_done(queue, job_id) for job_id in job_ids)
    assert [len(ledger.pids(job_id)) for job_id in job_ids] == [1, 1, 1]
    assert len({pid for job_id in job_ids for pid in ledger.pids(job_id)}) == 3


def test_without_a_wish_two_queues_are_served_in_turn(crew: Crew, both: tuple[list[str], list[str]]) -> None:
    assert crew.start("--burst").exit_code() == 0

    started = [job_id in both[0] for job_id in ledger.order_of_starts()]
    assert len(started) == 18
    assert sum(started[:10]) == 5


def test_a_queue_with_three_times_the_weight_gets_three_turns_of_four(
    crew: Crew, both: tuple[list[str], list[str]]
) -> None:
    assert crew.start("--burst", "--queues", "default:1,emails:3").exit_code() == 0

    started = [job_id in both[1] for job_id in ledger.order_of_starts()]
    assert len(started) == 18
    assert sum(started[:8]) == 6


def test_strictly_the_second_queue_waits_until_the_first_is_empty(
    crew: Crew, both: tuple[list[str], list[str]]
) -> None:
    assert crew.start("--burst", "--queues", "emails,default", "--strict").exit_code() == 0

    assert ledger.order_of_starts()[:9] == both[1]
    assert ledger.order_of_starts()[9:] == both[0]


def test_a_queue_that_is_not_named_is_not_served(crew: Crew, both: tuple[list[str], list[str]]) -> None:
    assert crew.start("--burst", "--queues", "emails").exit_code() == 0

    assert ledger.order_of_starts() == both[1]
    assert all(seen.is_in(get_bus().queue("default"), job_id, State.PENDING) for job_id in both[0])


@pytest.mark.parametrize("processes", [10, 25])
def test_a_worker_whose_processes_die_at_their_start_again_and_again_gives_up(crew: Crew, processes: int) -> None:
    worker = crew.start("--processes", str(processes), EMQ_TEST_FORKS_DIE="1")

    assert worker.exit_code() == GAVE_UP
    assert "died at their start: giving up" in worker.log


def test_an_unknown_queue_is_a_usage_error_with_a_suggestion(crew: Crew) -> None:
    worker = crew.start("--queues", "emials")

    assert worker.exit_code() == USAGE
    assert "Did you mean 'emails'?" in worker.log


def test_a_database_without_tables_is_a_usage_error_that_names_the_command(crew: Crew, tmp_path: Path) -> None:
    worker = crew.start(EMQ_TEST_DATABASE_URL=f"sqlite:///{tmp_path / 'empty.sqlite3'}")

    assert worker.exit_code() == USAGE
    assert "manage.py migrate echomq_django" in worker.log
    assert "Traceback" not in worker.log
