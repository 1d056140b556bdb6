"""What every measured queue is given: the same handlers and arguments, and one way to say that a handler runs.

It runs in the environments of other queues too, so it knows the standard library only.
"""

import os
import select
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ARGUMENTS: Final[tuple[Any, ...]] = (48121, "de-DE")
OPTIONS: Final[dict[str, Any]] = {
    "template": "receipt", "retry": None, "currency": "EUR", "total": "129.9", "order": 9912873
}  # fmt: skip


def nothing(order_id: int, language: str, **more: object) -> None:
    """Do nothing, with about 100 bytes of arguments."""


def report(sent_at: float) -> None:
    """Say how many seconds after the call that enqueued this job its handler started."""
    delay = time.time() - sent_at
    with open(os.environ["EMQ_BENCH_REPORTS"], "w") as pipe:
        pipe.write(f"{delay:.6f}\n")


class Silence(Exception):
    """No handler reported in time."""


class Reports:
    """The reading end of the named pipe that `report()` writes to."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        os.environ["EMQ_BENCH_REPORTS"] = str(path)
        self._pipe = os.open(path, os.O_RDWR)  # a writer of its own: the pipe never ends
        self._lines = self._read()
        self._timeout = 0.0

    def clear(self) -> None:
        """Forget what nobody waited for."""
        while select.select([self._pipe], [], [], 0)[0]:
            os.read(self._pipe, 65536)
        self._lines = self._read()

    def next(self, timeout: float) -> float:
        """Return the next delay in seconds; raise `Silence` when none comes within `timeout` seconds."""
        self._timeout = timeout
        return float(next(self._lines))

    def _read(self) -> Iterator[bytes]:
        rest = b""
        while True:
            *lines, rest = rest.split(b"\n")
            yield from lines
            if not select.select([self._pipe], [], [], self._timeout)[0]:
                raise Silence(f"no handler reported within {self._timeout:g} s")
            rest += os.read(self._pipe, 65536)
