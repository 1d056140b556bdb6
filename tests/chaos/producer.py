"""A site that enqueues at a steady pace, whatever its server does."""

import threading
import time
from types import TracebackType
from typing import Self

from tests.chaos import ledger, tasks
from tests.chaos.waiting import until

PACE_S = 0.01


def all_consume(within: float) -> None:
    """Wait until each process that has ever run a job has started another one."""
    before = ledger.all_pids()
    until(lambda: before.keys() <= (ledger.all_pids() - before).keys(), within=within)


class Producer:
    """Enqueues `tasks.work` on a thread of its own, as long as the `with` block lasts.

    `accepted` are the jobs that it got an id for, `refused` is what it was told instead; `slowest` is in seconds.
    """

    def __init__(self) -> None:
        self.accepted: list[str] = []
        self.refused: list[Exception] = []
        self.slowest = 0.0
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="producer")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leaving.set()
        self._thread.join()

    def is_refused(self, times: int = 1) -> None:
        """Wait until it has been refused so many times more."""
        enough = len(self.refused) + times
        until(lambda: len(self.refused) >= enough)

    def _serve(self) -> None:
        while not self._leaving.wait(PACE_S):
            began = time.monotonic()
            try:
                self.accepted.append(tasks.work.enqueue().id)
            except Exception as error:
                self.refused.append(error)
            self.slowest = max(self.slowest, time.monotonic() - began)
