"""What the parts below this queue can do at best: the limit of the figures that one of them bounds.

Each does nothing but its part of the work, one by one: the server the scripts that `enqueue()` runs, Django what its
framework does around a backend, an event loop the waiting of coroutines.
"""

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlsplit

from hiredis import pack_command

from tests.bench.workload import ARGUMENTS, OPTIONS

_ANSWER = b"*1\r\n:1\r\n"  # one job was added


class _Recorder:
    """Stands for the connections of a queue, and keeps the commands that it is to send."""

    def __init__(self) -> None:
        self.packed: list[bytes] = []

    def call(self, command: tuple[Any, ...]) -> list[int]:
        """Keep one and say that it added a job."""
        self.packed.append(pack_command(command))
        return [1]


def server_alone(queue: Any, url: str, count: int, enqueue: Callable[[], None]) -> float:
    """Return how often a second the server takes the very bytes of an `enqueue()` from a bare socket."""
    line, queue.line = queue.line, _Recorder()
    try:
        for _ in range(count):
            enqueue()
        packed = queue.line.packed
    finally:
        queue.line = line
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = time.monotonic()
        for command in packed:
            connection.sendall(command)
            if connection.recv(64) != _ANSWER:
                raise AssertionError("the server did not add the job")
        return count / (time.monotonic() - began)


def django_alone(task: Any, count: int) -> float:
    """Return how often a second Django's framework enqueues `task` with its dummy backend, which only keeps it."""
    task = task.using(backend="dummy")
    began = time.monotonic()
    for _ in range(count):
        task.enqueue(*ARGUMENTS, **OPTIONS)
    seconds = time.monotonic() - began
    task.get_backend().clear()
    return count / seconds


def loop_alone(handler: Callable[[], Coroutine[Any, Any, None]], count: int, at_once: int) -> float:
    """Return how many coroutines a second an event loop runs when so many are under way at once."""

    async def run_some() -> None:
        for _ in range(count // at_once):
            await asyncio.create_task(handler())

    async def run_all() -> None:
        await asyncio.gather(*(run_some() for _ in range(at_once)))

    began = time.monotonic()
    asyncio.run(run_all())
    return count // at_once * at_once / (time.monotonic() - began)
