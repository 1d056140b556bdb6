"""The jobs that a child has in its hands, run by threads in the order of their claim."""

import select
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from echomq_django.bus import ids
from echomq_django.bus.jobs import Release
from echomq_django.bus.row import Row, State, Token
from echomq_django.worker.board import Board, boottime
from echomq_django.worker.hands import Ended, Hands, Held

PATIENCE = 10.0


class Runner:
    """Runs jobs that wait for a word, and notes which came when."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self._go = threading.Semaphore(0)

    def __call__(self, held: Held, done: Callable[[Ended], None]) -> Ended:
        self.began.append(held.row.job_id)
        assert self._go.acquire(timeout=PATIENCE)
        return ended(held)

    def finish(self, count: int = 1) -> None:
        """Let so many jobs end."""
        self._go.release(count)


@pytest.fixture
def runner() -> Runner:
    return Runner()


@pytest.fixture
def board() -> Board:
    return Board(2)


@pytest.fixture
def hands(board: Board, runner: Runner) -> Iterator[Hands]:
    """Hands whose threads end with the test."""
    hands = Hands(board, runner)
    yield hands
    runner.finish(hands.threads)
    hands.close()
    wait_for(lambda: not [one for one in threading.enumerate() if one.name == "emq-jobs"])


def held(lease_ms: int = 30_000, claimed_at: float | None = None) -> Held:
    row = Row(ids.mint("q"), State.ACTIVE, "", 0, 3, lease_ms, 1, 1, b"", token=Token(1, b"nonce..."))
    now = boottime()
    return Held(None, 0, row, now + 30, now if claimed_at is None else claimed_at)  # type: ignore[arg-type]


def ended(job: Held) -> Ended:
    return Ended(job, Release(job.row.job_id, job.row.token))


def wait_for(condition: Callable[[], Any]) -> None:
    deadline = boottime() + PATIENCE
    while not condition():
        assert boottime() < deadline
        select.select([], [], [], 0.005)


def ends(hands: Hands) -> list[Ended]:
    assert select.select([hands], [], [], PATIENCE)[0]
    return hands.ended()


def is_empty(hands: Hands) -> bool:
    """Let go what has ended, and return whether nothing is left in hand."""
    hands.let_go(one.held for one in hands.ended())
    return len(hands) == 0


def test_jobs_begin_in_the_order_of_their_claim_and_as_many_as_there_are_threads(hands: Hands, runner: Runner) -> None:
    jobs = [held() for _ in range(4)]
    order = [job.row.job_id for job in jobs]
    hands.add(jobs)

    wait_for(lambda: len(runner.began) == 2)
    assert sorted(runner.began) == sorted(order[:2])
    assert (len(hands), hands.waiting, hands.idle_threads) == (4, 2, 0)

    runner.finish(2)
    wait_for(lambda: len(runner.began) == 4)
    assert hands.waiting == 0


def test_a_job_is_in_hand_until_it_is_let_go(hands: Hands, board: Board, runner: Runner) -> None:
    job = held()
    hands.add([job])
    wait_for(lambda: [one.job_id for one in board.running()] == [job.row.job_id])

    runner.finish()
    [ended] = ends(hands)

    assert ended.held is job
    assert ended.seconds > 0
    assert list(board.running()) == []
    assert (hands.ended(), hands.held, board.shortest_lease) == ([], [job], 30)
    hands.let_go([job])
    assert (len(hands), hands.held, board.shortest_lease) == (0, [], 0)


def test_the_shortest_lease_in_hand_stands_on_the_board(hands: Hands, board: Board, runner: Runner) -> None:
    hands.add([held(30_000)])
    wait_for(lambda: len(runner.began) == 1)
    hands.add([held(2_000)])
    assert board.shortest_lease == 2

    runner.finish(2)
    wait_for(lambda: is_empty(hands))
    assert board.shortest_lease == 0


def test_jobs_that_have_not_begun_can_be_taken_back(hands: Hands, runner: Runner) -> None:
    jobs = [held() for _ in range(5)]
    hands.add(jobs)
    wait_for(lambda: len(runner.began) == 2)

    assert hands.take_back() == jobs[2:]
    assert (len(hands), hands.waiting) == (2, 0)
    runner.finish(2)
    wait_for(lambda: is_empty(hands))
    assert sorted(runner.began) == sorted(job.row.job_id for job in jobs[:2])


def test_only_jobs_that_have_waited_for_long_are_taken_back(hands: Hands, runner: Runner) -> None:
    running, old, young = [held(), held()], held(claimed_at=boottime() - 60), held()
    hands.add([*running, old, young])
    wait_for(lambda: len(runner.began) == 2)

    assert hands.take_back(older_than=30) == [old]
    assert hands.waiting == 1
    runner.finish(3)
    wait_for(lambda: is_empty(hands))
    assert runner.began[-1] == young.row.job_id


def test_a_full_hand_wakes_nobody_before_half_of_what_waited_has_ended(hands: Hands, runner: Runner) -> None:
    hands.add([held() for _ in range(8)])

    for ended in range(1, 4):
        runner.finish()
        wait_for(lambda: len(runner.began) == 2 + ended)  # noqa: B023 it is called at once
    assert not select.select([hands], [], [], 0)[0]

    runner.finish()
    half = ends(hands)
    hands.let_go(one.held for one in half)
    assert len(half) == 4
    runner.finish(4)
    wait_for(lambda: is_empty(hands))


def test_a_job_that_says_later_that_it_has_ended_keeps_its_place_and_no_thread(board: Board) -> None:
    running: dict[str, Callable[[], None]] = {}

    def begin(job: Held, done: Callable[[Ended], None]) -> None:
        running[job.row.job_id] = lambda: done(ended(job))

    hands, order = Hands(board, begin), [held() for _ in range(3)]
    hands.add(order)
    wait_for(lambda: len(running) == 2)
    assert {one.job_id for one in board.running()} == running.keys() == {job.row.job_id for job in order[:2]}
    assert (hands.waiting, hands.ended()) == (1, [])

    running[order[1].row.job_id]()
    wait_for(lambda: len(running) == 3)
    assert [one.held for one in hands.ended()] == [order[1]]
    assert {one.job_id for one in board.running()} == {order[0].row.job_id, order[2].row.job_id}

    for job in (order[0], order[2]):
        running[job.row.job_id]()
    hands.close()
    wait_for(lambda: not [one for one in threading.enumerate() if one.name == "emq-jobs"])


@pytest.mark.parametrize("light", [True, False])
def test_the_thread_that_says_that_a_job_has_ended_begins_the_next_one_if_that_is_light(
    board: Board, light: bool
) -> None:
    began: dict[str, tuple[str, Callable[[], None]]] = {}

    def begin(job: Held, done: Callable[[Ended], None]) -> None:
        began[job.row.job_id] = (threading.current_thread().name, lambda: done(ended(job)))

    hands, order = Hands(board, begin, is_light=lambda job: light), [held() for _ in range(4)]
    hands.add(order)
    wait_for(lambda: len(began) == 2)
    for number, job in enumerate(order):
        began[job.row.job_id][1]()
        begun = min(4, number + 3)
        wait_for(lambda: len(began) == begun)  # noqa: B023 it is called at once
    threads = [began[job.row.job_id][0] for job in order]
    assert threads == ["emq-jobs"] * 2 + [threading.current_thread().name if light else "emq-jobs"] * 2
    assert [one.held for one in hands.ended()] == order
    hands.close()
    wait_for(lambda: not [one for one in threading.enumerate() if one.name == "emq-jobs"])


def test_a_poke_wakes_whoever_waits_for_an_end(hands: Hands) -> None:
    assert not select.select([hands], [], [], 0)[0]
    hands.poke()
    assert ends(hands) == []
    assert not select.select([hands], [], [], 0)[0]


def test_pokes_that_nobody_hears_block_nobody(hands: Hands) -> None:
    for _ in range(100_000):
        hands.poke()
    assert ends(hands) == []
