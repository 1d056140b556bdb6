"""How long to wait before the next try."""

import pytest

from echomq_django.worker.backoff import Reconnection, default_backoff, delay_ms

TABLE = [(1, 10), (2, 50), (3, 250), (4, 1250), (5, 3600), (6, 3600), (1_000_000, 3600)]


@pytest.mark.parametrize(("failures", "seconds"), TABLE)
def test_the_default_grows_to_an_hour_give_or_take_fifteen_per_cent(failures: int, seconds: float) -> None:
    delays = [default_backoff(failures) for _ in range(200)]

    assert seconds * 0.85 <= min(delays) < max(delays) <= seconds * 1.15


def test_jobs_that_failed_together_do_not_come_back_together() -> None:
    assert len({default_backoff(1) for _ in range(100)}) > 90


def test_four_failures_outlive_an_outage_of_ten_minutes() -> None:
    assert all(sum(map(default_backoff, range(1, 5))) > 600 for _ in range(100))


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (1.5, [1500, 1500, 1500]),
        (0, [0, 0, 0]),
        ((1, 2), [1000, 2000, 2000]),
        ([0.25], [250, 250, 250]),
        (lambda failures: failures * 0.1, [100, 200, 300]),
        (lambda failures: -1, [0, 0, 0]),
    ],
)
def test_a_task_may_say_its_own_delay(backoff: float, delays: list[int]) -> None:
    assert [delay_ms(backoff, failures) for failures in (1, 2, 3)] == delays


def test_without_a_wish_the_default_is_taken() -> None:
    assert 8_500 <= delay_ms(None, 1) <= 11_500


def test_pauses_between_attempts_to_connect_grow_to_a_second() -> None:
    server = Reconnection()
    pauses = [server.failed() for _ in range(50)]

    assert 0.025 <= pauses[0] <= 0.05
    assert all(0.5 <= pause <= 1.0 for pause in pauses[6:])


def test_an_outage_begins_with_a_failure_and_its_end_is_told_once() -> None:
    server = Reconnection()
    assert (server.waiting, server.worked()) == (False, False)

    server.failed()
    server.failed()
    assert server.waiting
    assert [server.worked(), server.worked()] == [True, False]
    assert not server.waiting
    assert server.failed() <= 0.05
