"""The loop of a keeper: what it does when, without a server or a database."""

import os
from collections.abc import Iterator

import pytest

from echomq_django.worker.keeper import Keeper, repeated
from echomq_django.worker.processes import control_pipe

LONG = 3600.0


class Told:
    """A duty that says a word to its own keeper each time that it is done, until it has no more to say."""

    def __init__(self, control: int, *words: bytes) -> None:
        self._control, self._words = control, iter(words)
        self.done = 0

    def __call__(self) -> float:
        self.done += 1
        os.write(self._control, next(self._words, b""))
        return LONG


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = control_pipe()
    yield reader, writer
    os.close(reader)
    os.close(writer)


def test_a_duty_that_has_more_to_do_is_repeated_and_the_others_are_not(pipe: tuple[int, int]) -> None:
    left = iter([200, 200, 7, 0, 0])
    other = Told(pipe[1], b"stop\n")

    assert Keeper("default", [repeated(lambda: next(left), LONG), other], pipe[0]).run() == 0

    assert (other.done, list(left)) == (2, [])  # each once more at the end


def test_a_duty_is_done_again_when_its_own_pause_is_over(pipe: tuple[int, int]) -> None:
    rare, moves = Told(pipe[1]), iter([0, 0, 0, 0])

    def often() -> int:
        if (moved := next(moves, None)) is None:
            os.write(pipe[1], b"stop\n")
        return moved or 0

    Keeper("default", [rare, repeated(often, 0.01)], pipe[0]).run()

    assert rare.done == 2


def test_all_duties_are_done_when_the_supervisor_says_that_there_is_work(pipe: tuple[int, int]) -> None:
    one, other = Told(pipe[1], b"mirror\n", b"stop\n"), Told(pipe[1])

    Keeper("default", [one, other], pipe[0]).run()

    assert (one.done, other.done) == (3, 3)
