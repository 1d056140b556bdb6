"""The page of memory that tells a supervisor what a child was doing when it died."""

import os
import signal
from collections.abc import Iterator

import pytest

from echomq_django.bus import ids
from echomq_django.worker.board import Board, Running, boottime

ONE = Running(1, ids.mint("one"), 1_700_000_000_123_456, 12.5)
OTHER = Running(0, ids.mint("other"), 1, 0.25)


@pytest.fixture
def board() -> Iterator[Board]:
    board = Board(3)
    yield board
    board.close()


def test_a_new_board_is_empty(board: Board) -> None:
    assert list(board.running()) == []
    assert board.shortest_lease == 0


def test_what_threads_run_stands_on_the_board_until_it_ends(board: Board) -> None:
    board.begin(0, ONE)
    board.begin(2, OTHER)
    assert list(board.running()) == [ONE, OTHER]

    board.end(0)
    assert list(board.running()) == [OTHER]
    board.begin(2, ONE)
    assert list(board.running()) == [ONE]


def test_the_fence_and_the_longest_id_come_back_exactly(board: Board) -> None:
    latest = Running(255, ids.mint("x"), 2**53, boottime())
    board.begin(1, latest)

    assert list(board.running()) == [latest]


def test_a_limit_stays_with_the_job_that_it_was_noted_for(board: Board) -> None:
    board.begin(0, ONE)
    board.begin(1, OTHER)
    board.limit(0, 2.5)
    assert list(board.running()) == [ONE._replace(time_limit=2.5), OTHER]

    board.end(0)
    board.begin(0, ONE)
    assert list(board.running()) == [ONE, OTHER]


def test_turn_wake_up_and_shortest_lease_do_not_touch_each_other_or_what_runs(board: Board) -> None:
    board.begin(0, ONE)
    assert (board.turned_at, board.woken_at) == (0, 0)
    board.turned_at, board.woken_at, board.shortest_lease = 12.5, 11.5, 3

    assert (board.turned_at, board.woken_at, board.shortest_lease) == (12.5, 11.5, 3)
    assert list(board.running()) == [ONE]


def test_a_child_is_busy_while_it_holds_something_and_was_so_when_it_was_woken(board: Board) -> None:
    assert board.busy_at == 0
    board.woken_at = 11.5
    assert board.busy_at == 11.5
    board.shortest_lease = 30
    assert board.busy_at == pytest.approx(boottime(), abs=5)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_the_parent_reads_what_a_killed_child_was_doing(board: Board) -> None:
    child = os.fork()
    if child == 0:
        board.begin(1, ONE)
        board.shortest_lease = 30
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)

    assert list(board.running()) == [ONE]
    assert board.shortest_lease == 30
