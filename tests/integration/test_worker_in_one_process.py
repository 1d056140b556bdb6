"""`emq_worker --processes 0`: all that a worker does, by threads of one process."""

import json
import shlex
import signal
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from echomq_django import enqueue_many
from echomq_django.bus.message import Message
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import State
from echomq_django.models import DeadJob
from tests.bus.scenes import suspects
from tests.chaos import ledger, seen, tasks
from tests.chaos.crew import COMMAND, Crew
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]

ALONE = ("--processes", "0")
LONG = pytest.mark.parametrize("lease", [60.0])
USAGE, FORCED = 2, 3


@LONG
def test_one_process_claims_runs_retries_promotes_mirrors_and_leaves(crew: Crew, queue: Queue) -> None:
    done = enqueue_many(tasks.work, [((), {})] * 20)
    soon = tasks.work.using(run_after=timezone.now() + timedelta(seconds=1)).enqueue().id
    dead = tasks.fail.using(max_failures=2, backoff=0).enqueue().id
    worker = crew.start(*ALONE, "--threads", "2")

    seen.done(queue, *done, soon)
    until(lambda: DeadJob.objects.filter(job_id=dead).exists())

    assert worker.pids == {worker.pid}
    assert {pid for job_id in (*done, soon, dead) for pid in ledger.pids(job_id)} == {worker.pid}
    assert "2 threads of this process, which can't isolate them" in worker.log
    assert "time_limit does not hold" in worker.log
    assert worker.stop() == 0


@pytest.mark.parametrize("threads", [1, 2])
@LONG
def test_a_job_has_the_main_thread_if_there_is_one_at_a_time(crew: Crew, queue: Queue, threads: int) -> None:
    job_id = tasks.on_main_thread.enqueue().id

    assert crew.start(*ALONE, "--threads", str(threads), "--burst").exit_code() == 0

    [end] = seen.done(queue, job_id)
    assert json.loads(end.value) == (threads == 1)


@LONG
def test_a_handler_can_be_debugged_in_the_terminal_of_the_worker(crew: Crew, queue: Queue) -> None:
    job_id = tasks.stop_in_debugger.enqueue().id
    words = shlex.join([*COMMAND, *ALONE, "--burst"])

    worker = crew.start(command=["sh", "-c", f"printf 'number = 5\\ncontinue\\n' | {words}"])

    assert worker.exit_code() == 0
    [end] = seen.done(queue, job_id)
    assert end.value == b"5"


@pytest.mark.parametrize("lease", [1.0])
def test_a_job_that_outlasts_its_lease_keeps_it(crew: Crew, queue: Queue, gate: Path) -> None:
    job_id = tasks.hold.enqueue(str(gate)).id
    alone = crew.start(*ALONE)
    until(lambda: ledger.starts(job_id))
    crew.start()
    first = seen.active(queue)[job_id]
    until(lambda: seen.active(queue)[job_id] > first + 3000)
    gate.touch()

    [end] = seen.done(queue, job_id)
    assert (end.attempts, ledger.pids(job_id)) == (1, [alone.pid])


@LONG
def test_what_runs_at_a_stop_is_finished_within_the_grace(crew: Crew, queue: Queue, gate: Path) -> None:
    running, waiting = (tasks.hold.enqueue(str(gate)).id for _ in range(2))
    worker = crew.start(*ALONE)
    until(lambda: ledger.starts(running))

    worker.tell(signal.SIGTERM)
    worker.logged("stopping")
    gate.touch()

    assert worker.exit_code() == 0
    assert seen.is_done(queue, running)
    assert seen.is_in(queue, waiting, State.PENDING)


@LONG
def test_a_signal_is_heard_whichever_thread_it_is_given_to(crew: Crew, queue: Queue, gate: Path) -> None:
    job_id = tasks.take_signal.enqueue(str(gate)).id
    worker = crew.start(*ALONE, "--threads", "2")

    worker.logged("stopping")
    gate.touch()

    assert worker.exit_code() == 0
    assert seen.is_done(queue, job_id)


@pytest.mark.parametrize("threads", [1, 2])
@LONG
def test_what_runs_beyond_the_grace_is_handed_back_without_a_stall_and_leaves_no_process_behind(
    crew: Crew, queue: Queue, threads: int
) -> None:
    job_id = tasks.overrun.using(time_limit=None).enqueue("has forked").id
    worker = crew.start(*ALONE, "--threads", str(threads), "--grace", "0.2")
    until(lambda: ledger.starts(job_id))

    worker.tell(signal.SIGTERM)

    assert worker.exit_code() == FORCED
    assert seen.is_in(queue, job_id, State.PENDING)
    assert seen.row(queue, job_id).stalled == 0


@LONG
def test_a_suspect_is_run_too(crew: Crew, queue: Queue) -> None:
    [row] = suspects(queue, body=Message("tests.chaos.tasks.work", b"[[],{}]").pack())

    crew.start(*ALONE)

    [end] = seen.done(queue, row.job_id)
    assert end.attempts == 2


@pytest.mark.parametrize("option", ["--max-jobs", "--max-memory"])
@LONG
def test_children_that_are_not_there_can_not_be_replaced(crew: Crew, option: str) -> None:
    worker = crew.start(*ALONE, option, "5")

    assert worker.exit_code() == USAGE
    assert f"{option} replaces children, and --processes 0 has none" in worker.log
