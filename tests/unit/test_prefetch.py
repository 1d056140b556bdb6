"""How many jobs a child holds in reserve."""

import pytest

from echomq_django.worker.prefetch import Prefetch


def after(threads: int, *seconds: float) -> int:
    prefetch = Prefetch(threads)
    for one in seconds:
        prefetch.measured(one)
    return prefetch.reserve


def test_before_anything_is_measured_nothing_is_held_in_reserve() -> None:
    assert after(8) == 0


def test_short_jobs_are_held_in_reserve() -> None:
    assert after(1, *[0.001] * 100) == 19
    assert after(4, *[0.001] * 100) == 79


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 0.0001])
def test_the_reserve_is_bounded_however_short_the_jobs_are(seconds: float) -> None:
    assert after(4, *[seconds] * 100) == 200


def test_one_long_job_among_short_ones_ends_the_reserve() -> None:
    assert after(1, *[0.001] * 100, 1.0) == 0


def test_a_child_without_threads_to_feed_holds_nothing() -> None:
    assert after(0, *[0.0] * 100) == 0
