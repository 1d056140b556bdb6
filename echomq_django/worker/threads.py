"""The processes of a worker as threads of one process, for debuggers and where nothing may be forked."""

import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import SimpleQueue

from echomq_django.worker.board import Board
from echomq_django.worker.processes import Process, Serve, control_pipe, end_forks, holder_name, leave

logger = logging.getLogger("echomq_django.worker")


@dataclass(eq=False)
class InThread(Process):
    """A thread that does the work of a process. Nothing can end it: what it held is handed back all the same."""

    code: int = 1
    ended: bool = False

    def kill(self) -> None:
        """Count as ended."""
        self.forced = True

    def close(self) -> None:
        """Give back what the supervisor had for it, unless it still runs."""
        if self.ended:
            super().close()

    def run(self, serve: Serve, control: int) -> None:
        """Do its work on the thread that calls."""
        try:
            self.code = serve(self.holder, self.board, control)
        except BaseException:
            logger.exception("%s failed", self.kind)
        self.ended = True
        os.close(control)


class Threads:
    """Stands in for `Forks`. If one job runs at a time it has the main thread, so that it can be debugged there."""

    def __init__(self) -> None:
        self._running: list[InThread] = []
        self._left_alone = False
        self._for_main: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def run(self, supervise: Callable[[], int]) -> int:
        """Run `supervise()` in a thread beside what the main thread is lent to, and return its exit code.

        If a job still runs when the code is known, the process ends under it.
        """
        code = 1

        def supervised() -> None:
            nonlocal code
            try:
                code = supervise()
            except BaseException:
                logger.exception("the supervisor failed")
                self._left_alone = True
            if self._left_alone:
                end_forks()
                leave(code)
            self._for_main.put(None)

        threading.Thread(target=supervised, name="emq-supervisor", daemon=True).start()
        for serve in iter(self._for_main.get, None):
            serve()
        return code

    def lend_main(self, serve: Callable[[], None]) -> None:
        """Let the main thread call `serve()`."""
        self._for_main.put(serve)

    def start(self, kind: str, threads: int, serve: Serve, inherited: list[Process]) -> Process:
        """Start `serve(holder, board, control)` in a new thread."""
        (reader, writer), holder = control_pipe(), holder_name(os.getpid(), secrets.token_hex(2))
        process = InThread(kind, os.getpid(), writer, holder, Board(threads))
        self._running.append(process)
        threading.Thread(target=process.run, args=(serve, reader), name=f"emq-{kind}", daemon=True).start()
        return process

    def ended(self) -> Iterator[tuple[Process, int]]:
        """Yield those that ended since the last call with their exit codes."""
        for process in [one for one in self._running if one.ended or one.forced]:
            self._running.remove(process)
            self._left_alone = self._left_alone or not process.ended
            yield process, process.code
