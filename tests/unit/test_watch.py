"""What a supervisor sees on the boards of its children, and when it ends one."""

import logging
import os
import signal
from collections.abc import Iterator
from math import inf

import pytest

from echomq_django.bus import ids
from echomq_django.worker.board import Board, Running, boottime
from echomq_django.worker.processes import Forks, Process
from echomq_django.worker.watch import Watch

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

JOB = ids.mint("default")


@pytest.fixture
def watch() -> Watch:
    return Watch([("default", 10.0), ("endless", inf)], grace=30)


@pytest.fixture
def child() -> Iterator[Process]:
    """A process that listens to nobody."""
    forks = Forks()
    child = forks.start("child", 1, _sit, [])
    yield child
    child.kill()
    os.waitpid(child.pid, 0)
    child.close()


def _sit(holder: str, board: Board, control: int) -> int:
    while True:
        signal.pause()


def run_for(child: Process, seconds: float, queue: int = 0, time_limit: float = 0.0) -> None:
    """Let its thread have run a job for so long."""
    child.board.begin(0, Running(queue, JOB, 1, boottime() - seconds, time_limit))


def stand_still(child: Process, seconds: float) -> None:
    """Let its claiming loop have turned for the last time so long ago."""
    child.started_at = child.board.turned_at = boottime() - seconds


def woken(watch: Watch, child: Process) -> Watch:
    """Return a watch that has looked after this child for a long time."""
    watch._awake_since = 0.0
    return watch


@pytest.mark.parametrize(
    ("seconds", "queue", "time_limit"),
    [(4, 0, 0), (1_000_000, 1, 0), (1_000_000, 0, inf), (19, 0, 40)],
    ids=["of the queue", "none of the queue", "none of the task", "of the task"],
)
def test_a_job_inside_its_limit_is_left_alone(
    watch: Watch, child: Process, caplog: pytest.LogCaptureFixture, seconds: float, queue: int, time_limit: float
) -> None:
    run_for(child, seconds, queue, time_limit)
    watch.look_at(child)

    assert (child.leaving, child.forced, caplog.records) == (False, False, [])


def test_a_job_that_has_used_half_of_its_time_is_told_of_once(
    watch: Watch, child: Process, caplog: pytest.LogCaptureFixture
) -> None:
    run_for(child, 6)
    watch.look_at(child)
    watch.look_at(child)

    assert caplog.messages == [f"job {JOB} in default has run for half of its time limit of 10 s"]
    assert caplog.records[0].levelno == logging.WARNING
    assert not child.leaving
    run_for(child, 7)  # another run of the same job
    watch.look_at(child)
    assert len(caplog.messages) == 2


def test_a_loop_that_stands_still_while_nothing_runs_costs_its_process(watch: Watch, child: Process) -> None:
    stand_still(child, 29)
    woken(watch, child).look_at(child)
    assert not child.forced

    stand_still(child, 31)
    watch.look_at(child)
    assert child.forced
    assert child.overdue == []


def test_a_loop_may_stand_still_for_as_long_as_a_lease(watch: Watch, child: Process) -> None:
    child.board.shortest_lease = 60
    stand_still(child, 31)
    woken(watch, child).look_at(child)

    assert not child.forced


def test_a_loop_may_stand_still_while_a_job_is_inside_its_limit(watch: Watch, child: Process) -> None:
    stand_still(child, 1000)
    run_for(child, 1000, queue=1)
    woken(watch, child).look_at(child)

    assert not child.forced


def test_children_that_slept_together_with_their_supervisor_get_their_time_anew(watch: Watch, child: Process) -> None:
    stand_still(child, 1000)
    watch._looked_at -= 1000
    watch.look_at(child)

    assert not child.forced
