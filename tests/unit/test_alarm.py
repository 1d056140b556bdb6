"""An alarm interrupts the handler that it was set for, and nothing that comes after it."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import pytest

from echomq_django.exceptions import SoftTimeLimit
from echomq_django.worker.alarm import Alarm, Alarms

LONG = 60.0


@pytest.fixture
def alarms() -> Iterator[Alarms]:
    """Alarms whose thread ends with the test: it does so when it wakes and no alarm is set."""
    alarms = Alarms()
    yield alarms
    with suppress(SoftTimeLimit):
        alarms.run(0.001, spin, noted([]))
    deadline = time.monotonic() + LONG
    while any(one.name == "emq-alarms" for one in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.005)


def spin() -> None:
    deadline = time.monotonic() + LONG
    while time.monotonic() < deadline:
        pass


def noted(calls: list[str]) -> Callable[[], None]:
    return lambda: calls.append("interrupted")


def test_a_function_that_runs_for_too_long_is_interrupted_and_said_to_be(alarms: Alarms) -> None:
    calls: list[str] = []

    with pytest.raises(SoftTimeLimit, match="longer than its soft_time_limit"):
        alarms.run(0.01, spin, noted(calls))

    assert calls == ["interrupted"]


def test_a_function_that_ends_in_time_gives_its_value_and_leaves_nothing_behind(alarms: Alarms) -> None:
    calls: list[str] = []

    assert alarms.run(LONG, lambda: 5, noted(calls)) == 5

    assert (calls, alarms._set) == ([], {})


def test_a_thread_is_there_again_for_an_alarm_after_a_pause(alarms: Alarms) -> None:
    for _ in range(3):
        with pytest.raises(SoftTimeLimit):
            alarms.run(0.001, spin, noted([]))
        while any(one.name == "emq-alarms" for one in threading.enumerate()):
            time.sleep(0.001)


def test_the_error_of_a_function_that_ends_in_time_comes_through(alarms: Alarms) -> None:
    with pytest.raises(ZeroDivisionError):
        alarms.run(LONG, lambda: 1 / 0, noted([]))

    assert alarms._set == {}


def test_a_function_may_catch_its_interruption_and_return(alarms: Alarms) -> None:
    calls: list[str] = []

    def clean_up() -> str:
        try:
            spin()
        except SoftTimeLimit:
            return "clean"
        return "never"

    assert (alarms.run(0.01, clean_up, noted(calls)), calls) == ("clean", ["interrupted"])


def test_each_of_many_threads_is_interrupted_by_its_own_alarm(alarms: Alarms) -> None:
    ends: dict[float, Any] = {}

    def run(limit: float) -> None:
        began = time.monotonic()
        try:
            alarms.run(limit, spin, noted([]))
        except SoftTimeLimit:
            ends[limit] = time.monotonic() - began

    threads = [threading.Thread(target=run, args=(limit,)) for limit in (0.3, 0.1, 0.2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(LONG)

    assert ends.keys() == {0.1, 0.2, 0.3}
    assert all(took >= limit for limit, took in ends.items())


def test_an_alarm_that_rings_when_its_function_has_ended_interrupts_nobody() -> None:
    alarm = Alarm(due=0)
    alarm.silence()
    alarm.ring()

    assert not alarm.rang
    sum(range(1000))


class SlowAlarm(Alarm):
    """An alarm whose thread pauses between its decision to ring and the exception."""

    def _take_chance(self) -> bool:
        taken = super()._take_chance()
        if threading.current_thread().name == "ringer":
            time.sleep(0.05)
        return taken


def test_an_end_waits_for_an_exception_that_is_on_its_way() -> None:
    alarm = SlowAlarm(due=0)
    ringer = threading.Thread(target=alarm.ring, name="ringer")
    ringer.start()
    while alarm._chance:
        pass

    with suppress(SoftTimeLimit):
        alarm.silence()

    ringer.join()
    assert alarm.rang


def test_an_exception_never_comes_after_the_function_whenever_it_is_sent() -> None:
    to_ring: SimpleQueue[Alarm | None] = SimpleQueue()
    ringer = threading.Thread(target=lambda: deque(map(Alarm.ring, iter(to_ring.get, None))))
    ringer.start()
    outcomes = set()
    for turn in range(100_000):
        alarm, ended = Alarm(due=0), True
        try:
            try:
                to_ring.put(alarm)
                sum(range(turn * 7 % 1000))  # so the exception is sent before, while and after it is silenced
            finally:
                alarm.silence()
        except SoftTimeLimit:
            ended = False
        sum(range(100))  # here it would hit the worker itself
        outcomes.add((alarm.rang, ended))
        if turn > 1000 and (True, False) in outcomes:
            break
    to_ring.put(None)
    ringer.join()

    assert (False, False) not in outcomes
    assert (True, False) in outcomes
