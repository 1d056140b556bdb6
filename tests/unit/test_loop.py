"""The one event loop of a child, when several threads have its first coroutines."""

import asyncio
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from echomq_django.worker.loop import Loop
from tests.chaos.waiting import until

THREADS = 8


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads that take turns all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


async def where() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


@pytest.mark.usefixtures("hasty_threads")
def test_coroutines_that_come_first_from_several_threads_at_once_run_on_one_loop() -> None:
    loop, together = Loop(), Barrier(THREADS)

    def run() -> Any:
        together.wait()
        return loop.run(where())

    with ThreadPoolExecutor(THREADS) as threads:
        loops = {found.result() for found in [threads.submit(run) for _ in range(THREADS)]}

    for one in loops:
        end(one)
    assert len(loops) == 1


def end(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_soon_threadsafe(loop.stop)
    until(lambda: not loop.is_running())
    loop.close()
