"""Interrupts handlers that run for longer than their soft limit."""

import asyncio
import ctypes
import threading
import time
from collections.abc import Callable, Coroutine
from math import inf
from typing import Any

from echomq_django.exceptions import SoftTimeLimit


class Alarm:
    """Raises `SoftTimeLimit` inside the handler of one thread, at most once and never after `silence()`."""

    def __init__(self, due: float) -> None:
        self.due = due
        self.rang = False
        self._thread = ctypes.c_ulong(threading.get_ident())
        self._chance = [True]  # whoever takes it decides: the handler has ended, or the exception is sent
        self._sent = threading.Lock()
        self._sent.acquire()

    @property
    def may_ring(self) -> bool:
        """Whether it has neither rung nor been silenced."""
        return bool(self._chance)

    def ring(self) -> None:
        """Interrupt the handler, unless it has ended."""
        if self._take_chance():
            self.rang = True
            _raise_in(self._thread, ctypes.py_object(SoftTimeLimit))
            self._sent.release()

    def silence(self) -> None:
        """End the handler's time; an exception that is still under way is raised in here, or called back."""
        if not self._take_chance():
            self._sent.acquire()
            _raise_in(self._thread, None)

    def _take_chance(self) -> bool:
        try:
            return self._chance.pop()
        except IndexError:
            return False


class Alarms:
    """The alarms of one process, rung by one thread that is there while it may be needed."""

    def __init__(self) -> None:
        self._set: dict[int, Alarm] = {}
        self._changed = threading.Condition()
        self._wakes_at = -inf  # no thread yet

    def run(self, seconds: float, function: Callable[[], Any], interrupted: Callable[[], None]) -> Any:
        """Call `function` on this thread for at most so many seconds; `interrupted()` is called after it if it was."""
        alarm = self._start(seconds)
        try:
            try:
                return function()
            finally:
                alarm.silence()
        finally:
            self._set.pop(threading.get_ident(), None)
            if alarm.rang:
                interrupted()

    def _start(self, seconds: float) -> Alarm:
        alarm = Alarm(time.monotonic() + seconds)
        with self._changed:
            self._set[threading.get_ident()] = alarm
            if self._wakes_at == -inf:
                self._wakes_at = inf
                threading.Thread(target=self._serve, name="emq-alarms", daemon=True).start()
            elif alarm.due < self._wakes_at:
                self._changed.notify()
        return alarm

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._wakes_at = min((alarm.due for alarm in list(self._set.values()) if alarm.may_ring), default=-inf)
                if self._wakes_at == -inf:
                    return  # the next alarm starts another
                self._changed.wait(self._wakes_at - time.monotonic())
            for alarm in list(self._set.values()):
                if alarm.due <= time.monotonic():
                    alarm.ring()


async def within(seconds: float, coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Await `coroutine` for at most so many seconds; what it awaits then is cancelled, as by `asyncio.timeout()`."""
    try:
        async with asyncio.timeout(seconds) as limit:
            return await coroutine
    except TimeoutError as error:
        if limit.expired():
            raise SoftTimeLimit from error.__context__  # the cancellation knows what was awaited
        raise


def _raise_in(thread: ctypes.c_ulong, error: Any) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, error)
