"""The event loop of a child, for handlers that are coroutines."""

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine
from contextvars import Context
from typing import Any


class Loop:
    """An event loop on a thread of its own, started when the first coroutine needs it."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()  # a loop itself keeps no task from being collected
        self._to_start: deque[tuple[Coroutine[Any, Any, None], Context]] = deque()
        self._told = False
        self._started: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run `coroutine` in the caller's context, and return its value or raise its error."""
        value, fatal = asyncio.run_coroutine_threadsafe(_contained(coroutine), self._loop).result()
        if fatal is not None:
            raise fatal
        return value

    def start(self, coroutine: Coroutine[Any, Any, None], context: Context) -> None:
        """Run `coroutine`, which never raises, in `context`, and return at once."""
        self._to_start.append((coroutine, context))
        if threading.current_thread() is self._thread:
            self._start_all()
        elif not self._told:  # a system call, for the first of those that start together
            self._told = True
            self._loop.call_soon_threadsafe(self._start_all)

    def _start_all(self) -> None:
        self._told = False  # before the list is read: what comes after that tells again
        while self._to_start:
            coroutine, context = self._to_start.popleft()
            task = self._loop.create_task(coroutine, context=context)
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        with self._starting:  # the first coroutines come from several threads at once
            if self._started is None:
                self._started = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._started.run_forever, name="emq-loop", daemon=True)
                self._thread.start()
            return self._started


async def _contained(coroutine: Coroutine[Any, Any, Any]) -> tuple[Any, BaseException | None]:
    # These two would end the loop itself, and every other job on it would wait for ever.
    try:
        return await coroutine, None
    except (KeyboardInterrupt, SystemExit) as error:
        return None, error
