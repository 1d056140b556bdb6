"""What is kept of an exception."""

from weakref import ref

import pytest

from echomq_django.worker.failure import describe, without_locals


class Unspeakable(Exception):
    """Can't say what it is."""

    def __str__(self) -> str:
        raise SystemExit


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


class Ballast:
    """Something that can be watched."""


def raised_beside_ballast() -> tuple[BaseException, "ref[Ballast]"]:
    """Return an error whose cause holds something in its frame, and what it holds."""
    ballast = Ballast()
    try:
        try:
            int("no number")
        finally:
            watched = ref(ballast)
    except ValueError as cause:
        return caught_with(cause), watched
    raise AssertionError


def caught_with(cause: BaseException) -> BaseException:
    try:
        raise LookupError("no paper") from cause
    except LookupError as error:
        error.__traceback__.tb_frame.f_locals["cause"].__cause__ = error  # a circle
        return error


def test_an_error_without_locals_holds_nothing_and_keeps_its_text() -> None:
    error, watched = raised_beside_ballast()
    assert watched() is not None
    text = describe("failed", error).traceback

    bare = without_locals(error)

    assert watched() is None
    assert bare is error
    assert "in raised_beside_ballast" in text


def test_an_error_is_kept_with_its_class_its_text_and_its_frames() -> None:
    failure = describe("failed", raised(ValueError("no paper")))

    assert (failure.reason, failure.error_class, failure.message) == ("failed", "builtins.ValueError", "no paper")
    assert failure.traceback.startswith("Traceback (most recent call last):")
    assert "in raised" in failure.traceback
    assert failure.traceback.endswith("ValueError: no paper\n")


def test_the_cause_is_kept_too() -> None:
    try:
        raise LookupError("nothing there") from raised(KeyError("lost"))
    except LookupError as error:
        failure = describe("failed", error)

    assert "KeyError: 'lost'" in failure.traceback
    assert "LookupError: nothing there" in failure.traceback


def test_the_end_of_a_deep_recursion_is_kept_and_its_beginning_is_left_out() -> None:
    def dive(depth: int) -> None:
        if depth == 0:
            raise ValueError("the ground")
        dive(depth - 1)

    with pytest.raises(ValueError, match="the ground") as caught:
        dive(500)

    frames = describe("failed", caught.value).traceback
    assert frames.endswith("ValueError: the ground\n")
    assert "raise ValueError" in frames
    assert len(frames) < 12_000


@pytest.mark.parametrize("letter", ["x", "é", "😀", "\ud800"], ids=["one byte", "two bytes", "four bytes", "surrogate"])
def test_a_long_text_is_cut_in_the_middle_with_a_note_and_fits_the_server(letter: str) -> None:
    failure = describe("failed", raised(ValueError("A" + letter * 5_000_000 + "Z")))

    assert failure.message.startswith("A" + letter)
    assert failure.message.endswith(letter + "Z")
    assert "characters are left out" in failure.message
    assert "characters are left out" in failure.traceback
    assert len(failure.pack()) <= 16 * 1024


def test_a_short_text_is_kept_whole_whatever_it_holds() -> None:
    text = "<b> \0 \ud800 \x1b[31m é"
    failure = describe("failed", raised(ValueError(text)))

    assert failure.message == text
    assert "characters are left out" not in failure.traceback


def test_an_error_that_can_not_say_what_it_is_is_kept_by_its_class() -> None:
    failure = describe("failed", raised(Unspeakable()))

    assert failure.error_class.endswith("test_failure.Unspeakable")
    assert failure.message == "(its text can't be had: SystemExit)"
    assert "in raised" in failure.traceback


def test_an_error_that_was_never_raised_has_no_frames() -> None:
    failure = describe("unrunnable", ValueError("made by hand"))

    assert failure.traceback == "ValueError: made by hand\n"
