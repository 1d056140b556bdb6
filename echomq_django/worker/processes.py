"""Forking, watching and ending the processes of a worker."""

import contextlib
import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from echomq_django.worker.board import Board, boottime

logger = logging.getLogger("echomq_django.worker")


@dataclass(eq=False)
class Process:
    """A forked process: its pid, the writing end of its control pipe, and what it was started for."""

    kind: str  # child, alone or keeper
    pid: int
    control: int
    holder: str
    board: Board
    started_at: float = field(default_factory=boottime)
    renewed_at: float = field(default_factory=boottime)
    forced: bool = False

    def say(self, word: bytes) -> None:
        """Write to the control pipe; a process that is gone hears nothing, which its death tells anyway."""
        try:
            os.write(self.control, word)
        except BrokenPipeError:
            pass
        except BlockingIOError:
            logger.warning("process %d does not listen: %r is not said", self.pid, word)

    def kill(self) -> None:
        """End it for good; what it held is handed back without a stall."""
        self.forced = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Give back what the supervisor had for it."""
        os.close(self.control)
        self.board.close()


def fork(kind: str, threads: int, serve: Callable[[str, Board, int], int], inherited: list[Process]) -> Process:
    """Start `serve(holder, board, control)` in a new process; its return value is the exit code.

    The new process closes the control pipes of its `inherited` siblings: only so does each of them notice when the
    supervisor is gone.
    """
    board, (reader, writer), chance = Board(threads), os.pipe(), secrets.token_hex(2)
    os.set_blocking(writer, False)
    pid = os.fork()
    if pid:
        os.close(reader)
        return Process(kind, pid, writer, holder_name(pid, chance), board)
    code = 1
    try:
        os.close(writer)
        for process in inherited:
            os.close(process.control)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        code = serve(holder_name(os.getpid(), chance), board, reader)
    except BaseException:
        logger.exception("%s %d failed", kind, os.getpid())
    finally:
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # never run what the parent's interpreter would clean up


def holder_name(pid: int, chance: str) -> str:
    """Return the name of one incarnation of one process: unique, and readable for an operator."""
    host = "".join(c if "!" <= c <= "~" and c != ":" else "-" for c in socket.gethostname())
    return f"{host[:20]}:{pid}:{chance}"


def collect() -> list[tuple[int, int]]:
    """Return (pid, status) of the processes that ended since the last call."""
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.append((pid, status))
