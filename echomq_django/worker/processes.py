"""Forking, watching and ending the processes of a worker."""

import contextlib
import logging
import os
import secrets
import signal
import socket
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import NoReturn

from echomq_django.worker.board import Board, Running, boottime

logger = logging.getLogger("echomq_django.worker")

Serve = Callable[[str, Board, int], int]  # holder, board and the reading end of the control pipe -> exit code
STOP = b"s"
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


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
    late: list[Running] = field(default_factory=list)  # jobs that have used half of their time
    leaving: bool = False  # it starts no more jobs, since one was beyond its time limit
    ends_at: float = inf  # when it is killed for those that still are
    overdue: list[Running] = field(default_factory=list)  # what it was killed for
    clerk: "Process | None" = None  # tells the server about that

    def say(self, word: bytes) -> None:
        """Write to the control pipe; a process that is gone hears nothing, which its death tells anyway."""
        try:
            os.write(self.control, word)
        except BrokenPipeError:
            pass
        except BlockingIOError:
            logger.warning("process %d does not listen: %r is not said", self.pid, word)

    def kill(self) -> None:
        """End it for good, with what its handlers have forked; what it held is handed back without a stall."""
        self.forced = True
        _kill(_family(self.pid))

    def close(self) -> None:
        """Give back what the supervisor had for it."""
        os.close(self.control)
        self.board.close()


class Forks:
    """Processes that are forks of this one, so that whatever kills one of them leaves the others alone."""

    def __init__(self) -> None:
        self._running: dict[int, Process] = {}

    def run(self, supervise: Callable[[], int]) -> int:
        """Run `supervise()` and return its exit code."""
        return supervise()

    def start(self, kind: str, threads: int, serve: Serve, inherited: list[Process]) -> Process:
        """Start `serve(holder, board, control)` in a new process; its return value is the exit code.

        The new process closes the control pipes of its `inherited` siblings: only so does each of them notice when the
        supervisor is gone.
        """
        board, (reader, writer), chance = Board(threads), control_pipe(), secrets.token_hex(2)
        # What all processes are told at once must not be told to the supervisor by the new one, too.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
            os.close(reader)
            self._running[pid] = Process(kind, pid, writer, holder_name(pid, chance), board)
            return self._running[pid]
        foreign = [writer, *(process.control for process in inherited)]
        _become(kind, foreign, lambda: serve(holder_name(os.getpid(), chance), board, reader))

    def ended(self) -> Iterator[tuple[Process, int]]:
        """Yield the processes that ended since the last call with their exit codes; below 0 it was a signal."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if process := self._running.pop(pid, None):
                yield process, os.waitstatus_to_exitcode(status)


def control_pipe() -> tuple[int, int]:
    """Return both ends of a control pipe; writing to it never blocks."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    return reader, writer


def _become(kind: str, foreign: list[int], serve: Callable[[], int]) -> NoReturn:
    code = 1
    try:
        for end in foreign:
            os.close(end)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in STOP_SIGNALS:  # a terminal sends them to all; the supervisor says when it is time
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        code = serve()
    except BaseException:
        logger.exception("%s %d failed", kind, os.getpid())
        end_forks()
    finally:
        leave(code)  # never run what the parent's interpreter would clean up


def _family(pid: int) -> list[int]:
    """Return a process and its descendants; without `/proc` only itself."""
    children: dict[int, list[int]] = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = stat.read_text(errors="replace").rpartition(")")[2].split()[1]
            children[int(parent)].append(int(stat.parent.name))
    family = [pid]
    for one in family:
        family += children[one]
    return family


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def end_forks() -> None:
    """End what handlers have forked, before this process ends under them."""
    _kill(_family(os.getpid())[1:])


def leave(code: int) -> NoReturn:
    """End this process at once, with all that was logged and printed."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def holder_name(pid: int, chance: str) -> str:
    """Return the name of one incarnation of one process: unique, and readable for an operator."""
    host = "".join(c if "!" <= c <= "~" and c != ":" else "-" for c in socket.gethostname())
    return f"{host[:20]}:{pid}:{chance}"
