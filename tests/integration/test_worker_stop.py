"""How a worker stops: what runs may finish within the grace, the rest goes back without a charge."""

import os
import shlex
import signal
from pathlib import Path

import pytest

from echomq_django.bus.queue import Queue
from echomq_django.bus.row import State
from tests.chaos import ledger, seen, tasks
from tests.chaos.crew import COMMAND, Crew
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]
pytestmark = pytest.mark.parametrize("lease", [60.0])  # longer than any test waits: only a hand-back can be so soon

EITHER = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
WORKER = shlex.join([*COMMAND, "--processes", "1", "--grace", "60"])


@EITHER
def test_a_worker_that_is_asked_to_stop_finishes_what_runs_and_claims_nothing_more(
    crew: Crew, queue: Queue, gate: Path, number: signal.Signals
) -> None:
    """C63, learningequality/studio#5000."""
    running, waiting = (tasks.hold.enqueue(str(gate)).id for _ in range(2))
    worker = crew.start()
    until(lambda: ledger.starts(running))

    worker.tell(number)
    worker.logged("stopping")
    gate.touch()

    assert worker.exit_code() == 0
    [end] = seen.done(queue, running)
    assert (end.attempts, ledger.starts(running)) == (1, 1)
    assert seen.is_in(queue, waiting, State.PENDING)
    assert (seen.row(queue, waiting).attempts, ledger.starts(waiting)) == (0, 0)


def test_what_still_runs_at_the_end_of_the_grace_is_handed_back_and_another_worker_starts_it_at_once(
    crew: Crew, queue: Queue
) -> None:
    """C63, learningequality/studio#5000."""
    job_id = tasks.overrun.using(time_limit=None).enqueue("has forked").id
    worker = crew.start("--grace", "0.5")
    until(lambda: ledger.starts(job_id))
    crew.start().ready()

    worker.tell(signal.SIGTERM)

    assert worker.exit_code() == 3
    [end] = seen.done(queue, job_id)
    assert (end.attempts, ledger.starts(job_id)) == (2, 2)
    assert seen.stalls(queue, job_id) == 0


def test_the_second_request_to_stop_hands_what_runs_back_at_once(crew: Crew, queue: Queue, gate: Path) -> None:
    """C63, learningequality/studio#5000."""
    job_id = tasks.hold.enqueue(str(gate)).id
    worker = crew.start("--grace", "600")
    until(lambda: ledger.starts(job_id))

    worker.tell(signal.SIGTERM)
    worker.logged("stopping")
    worker.tell(signal.SIGTERM)

    assert worker.exit_code() == 3
    assert seen.is_in(queue, job_id, State.PENDING)
    assert seen.row(queue, job_id).stalled == 0


@EITHER
@pytest.mark.parametrize("script", [WORKER, f"{WORKER}; exit $?"], ids=["its last command", "with more to do"])
def test_a_worker_below_a_shell_stops_in_order_when_all_processes_are_told_at_once(
    crew: Crew, queue: Queue, gate: Path, script: str, number: signal.Signals
) -> None:
    """C63, learningequality/studio#5000."""
    job_id = tasks.hold.enqueue(str(gate)).id
    worker = crew.start(command=["sh", "-c", script])
    until(lambda: ledger.starts(job_id))

    worker.tell_all(number)
    worker.logged("stopping")
    gate.touch()

    worker.exit_code()
    [end] = seen.done(queue, job_id)
    assert (end.attempts, ledger.starts(job_id)) == (1, 1)


def test_an_idle_worker_stops_at_once_and_reports_success(crew: Crew, queue: Queue) -> None:
    worker = crew.start().ready()
    seen.done(queue, tasks.work.enqueue().id)

    assert worker.stop() == 0


def test_a_child_that_is_being_forked_when_the_worker_is_asked_to_stop_hears_of_it(crew: Crew) -> None:
    keeper_and_child = "2"
    worker = crew.start("--grace", "600", EMQ_TEST_TERM_AT_FORK=keeper_and_child)

    assert worker.exit_code() == 0
    assert "stopping" in worker.log


def test_a_child_that_is_told_alone_leaves_when_its_job_ends_and_is_replaced(
    crew: Crew, queue: Queue, gate: Path
) -> None:
    running, waiting = (tasks.hold.enqueue(str(gate)).id for _ in range(2))
    worker = crew.start()
    [child] = until(lambda: ledger.pids(running))

    os.kill(child, signal.SIGTERM)
    gate.touch()

    seen.done(queue, running, waiting)
    assert ledger.pids(running) == [child]
    assert ledger.pids(waiting)[0] in worker.pids - {child}
    assert worker.stop() == 0
