"""What a worker tells those who listen, each thing once and none of them able to harm it."""

import os
import signal
from pathlib import Path

import pytest

from echomq_django.bus.queue import Queue
from tests.chaos import ledger, seen, tasks
from tests.chaos.crew import Crew
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]
pytestmark = pytest.mark.parametrize("lease", [60.0])

STARTED = "task_started RUNNING"


def test_a_job_that_succeeds_is_told_of_at_its_start_and_at_its_end(crew: Crew, queue: Queue) -> None:
    job_id = tasks.work.enqueue().id
    crew.start(EMQ_TEST_SIGNALS="1")

    seen.done(queue, job_id)
    until(lambda: ledger.signals(job_id) == [STARTED, "task_finished SUCCESSFUL"])


def test_a_job_that_will_be_tried_again_has_not_finished(crew: Crew, queue: Queue) -> None:
    job_id = tasks.fail_once.enqueue().id
    crew.start(EMQ_TEST_SIGNALS="1")

    seen.done(queue, job_id)
    until(lambda: ledger.signals(job_id) == [STARTED, STARTED, "task_finished SUCCESSFUL"])


def test_a_job_that_dies_has_finished_and_its_row_is_told_of(crew: Crew, queue: Queue) -> None:
    job_id = tasks.fail_at_once.enqueue().id
    crew.start(EMQ_TEST_SIGNALS="1")

    told = {STARTED, "task_finished FAILED", "job_dead default default dead_job"}
    until(lambda: set(ledger.signals(job_id)) == told)
    assert len(ledger.signals(job_id)) == 3


def test_a_job_whose_process_is_killed_is_told_to_have_stalled_and_to_be_back(
    crew: Crew, queue: Queue, gate: Path
) -> None:
    job_id = tasks.hold.enqueue(str(gate)).id
    crew.start(EMQ_TEST_SIGNALS="1")
    [child] = until(lambda: ledger.pids(job_id))

    os.kill(child, signal.SIGKILL)

    seen.done(queue, job_id)
    told = ["job_recovered default default", "job_stalled default default", "task_finished SUCCESSFUL"]
    until(lambda: sorted(ledger.signals(job_id)) == sorted([STARTED, STARTED, *told]))


def test_a_worker_whose_listeners_fail_goes_on_and_says_so(crew: Crew, queue: Queue) -> None:
    worker = crew.start(EMQ_TEST_SIGNALS="1")
    job_ids = [tasks.work.enqueue().id for _ in range(3)]

    seen.done(queue, *job_ids)
    worker.logged("a receiver that fails", 6)
    assert [ledger.starts(job_id) for job_id in job_ids] == [1, 1, 1]
    assert worker.stop() == 0
