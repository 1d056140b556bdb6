"""What a supervisor sees on the boards of its children, and when it ends one."""

import logging
import os
import signal
from collections.abc import Iterator
from math import inf

import pytest

from echomq_django.bus import ids
from echomq_django.worker import watch as module
from echomq_django.worker.board import Board, Running, boottime
from echomq_django.worker.processes import Forks, Process
from echomq_django.worker.watch import Watch

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

JOB = ids.mint("default")
TICK = 5.0


class Hours:
    """A clock that is turned by hand, and the watch that goes by it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = boottime()
        monkeypatch.setattr(module, "boottime", lambda: self.now)
        self.watch = Watch([("default", 10.0), ("endless", inf)], grace=30)

    def pass_by(self, child: Process, seconds: float, tick: float = TICK) -> None:
        """Let time pass, and look at `child` after each tick."""
        end = self.now + seconds
        while self.now < end and not child.forced:
            self.now = min(end, self.now + tick)
            self.watch.look_at(child)


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> Hours:
    return Hours(monkeypatch)


@pytest.fixture
def child() -> Iterator[Process]:
    """A process that listens to nobody."""
    child = Forks().start("child", 2, _sit, [])
    yield child
    child.kill()
    os.waitpid(child.pid, 0)
    child.close()


def _sit(holder: str, board: Board, control: int) -> int:
    while True:
        signal.pause()


def begin(child: Process, hours: Hours, queue: int = 0, time_limit: float = 0.0, thread: int = 0) -> None:
    """Let a thread of it begin a job."""
    child.board.begin(thread, Running(queue, JOB, 1, hours.now, time_limit))


@pytest.mark.parametrize(
    ("seconds", "queue", "time_limit"),
    [(4, 0, 0), (100, 1, 0), (100, 0, inf), (15, 0, 40)],
    ids=["of the queue", "none of the queue", "none of the task", "of the task"],
)
def test_a_job_inside_its_limit_is_left_alone(
    hours: Hours, child: Process, caplog: pytest.LogCaptureFixture, seconds: float, queue: int, time_limit: float
) -> None:
    begin(child, hours, queue, time_limit)
    hours.pass_by(child, seconds)

    assert (child.leaving, child.forced, caplog.records) == (False, False, [])


def test_a_job_that_has_used_half_of_its_time_is_told_of_once_in_each_run(
    hours: Hours, child: Process, caplog: pytest.LogCaptureFixture
) -> None:
    begin(child, hours)
    hours.pass_by(child, 8, tick=1)
    assert caplog.messages == [f"job {JOB} in default has run for half of its time limit of 10 s"]
    assert caplog.records[0].levelno == logging.WARNING

    begin(child, hours)
    hours.pass_by(child, 8, tick=1)
    assert len(caplog.messages) == 2
    assert not child.leaving


def test_a_job_that_ends_in_the_margin_saves_its_process_and_the_next_has_a_margin_of_its_own(
    hours: Hours, child: Process
) -> None:
    begin(child, hours)
    begin(child, hours, time_limit=70, thread=1)
    hours.pass_by(child, 12)
    assert (child.leaving, child.forced) == (True, False)
    child.board.end(0)
    begin(child, hours, queue=1)
    hours.pass_by(child, 60)
    assert not child.forced

    hours.pass_by(child, 25)  # the second is beyond its own limit for 27 seconds
    assert not child.forced
    hours.pass_by(child, 10)
    assert [one.time_limit for one in child.overdue] == [70]


def test_a_loop_that_stands_still_for_half_a_minute_while_nothing_runs_costs_its_process(
    hours: Hours, child: Process
) -> None:
    hours.pass_by(child, 25)
    child.board.turned_at = hours.now
    hours.pass_by(child, 29)
    assert not child.forced

    hours.pass_by(child, 2)
    assert child.forced
    assert child.overdue == []


def test_a_loop_may_stand_still_for_as_long_as_a_lease(hours: Hours, child: Process) -> None:
    child.board.shortest_lease = 60
    hours.pass_by(child, 59)
    assert not child.forced

    hours.pass_by(child, 2)
    assert child.forced


def test_a_loop_may_stand_still_while_a_job_is_inside_its_limit(hours: Hours, child: Process) -> None:
    begin(child, hours, queue=1)
    hours.pass_by(child, 1000)

    assert not child.forced


def test_children_that_slept_together_with_their_supervisor_get_their_time_anew(hours: Hours, child: Process) -> None:
    hours.pass_by(child, 1000, tick=1000)
    hours.pass_by(child, 25)
    assert not child.forced

    hours.pass_by(child, 10)
    assert child.forced
