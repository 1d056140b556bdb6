"""Worker processes of one test: started, hurt, asked what they logged, and never left behind."""

import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.chaos.waiting import PATIENCE, until

COMMAND = [sys.executable, "-m", "django", "emq_worker"]


class Worker:
    """An `emq_worker` in a session of its own, so that all its processes can be hit at once, and found."""

    def __init__(self, command: list[str], log: Path, environment: Mapping[str, str]) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )

    @property
    def pid(self) -> int:
        """The process that was started: the supervisor, or the shell that started it."""
        return self._process.pid

    @property
    def log(self) -> str:
        """All that its processes have written so far."""
        return self._log.read_text(errors="replace")

    @property
    def lines(self) -> dict[int, list[str]]:
        """What each of its processes has logged so far, by pid."""
        lines: dict[int, list[str]] = defaultdict(list)
        for pid, text in re.findall(r"^(\d+) [A-Z]+ (.*)$", self.log, re.MULTILINE):
            lines[int(pid)].append(text)
        return lines

    @property
    def is_running(self) -> bool:
        """Whether the process that was started is still there."""
        return self._process.poll() is None

    @property
    def pids(self) -> set[int]:
        """The processes of its session that live."""
        return {pid for pid, state in _session(self.pid) if state not in "ZX"}

    @property
    def is_frozen(self) -> bool:
        """Whether all its processes are stopped."""
        states = [state for _, state in _session(self.pid)]
        return bool(states) and set(states) == {"T"}

    def logged(self, text: str, times: int = 1, *, within: float = PATIENCE) -> Self:
        """Wait until it has logged `text` so many times."""
        deadline = time.monotonic() + within
        while self.log.count(text) < times:
            assert time.monotonic() < deadline, f"{text!r} was not logged {times} times:\n{self.log}"
            time.sleep(0.02)
        return self

    def ready(self) -> Self:
        """Wait until it serves its queues."""
        return self.logged("connected to")

    def tell(self, number: signal.Signals) -> None:
        """Send a signal to the process that was started."""
        os.kill(self.pid, number)

    def tell_all(self, number: signal.Signals) -> None:
        """Send a signal to all its processes at once."""
        os.killpg(self.pid, number)

    def exit_code(self, *, within: float = PATIENCE) -> int:
        """Wait for its end, at which none of its processes may be left, and return the exit code."""
        try:
            code = self._process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end:\n{self.log}") from None
        until(lambda: not self.pids)
        return code

    def stop(self) -> int:
        """Ask it to stop, wait, and return the exit code."""
        self.tell(signal.SIGTERM)
        return self.exit_code()

    def kill(self) -> None:
        """Send SIGKILL to all its processes at once, as the death of its machine would."""
        for pid in self.pids:
            with suppress(ProcessLookupError):  # it ended by itself a moment ago
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        until(lambda: not self.pids)


class Crew:
    """Starts workers with the test's server, database and options in their environment."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.workers: list[Worker] = []

    def start(self, *options: str, command: list[str] | None = None, **environment: str) -> Worker:
        """Start a worker with one child, unless the options say otherwise; it is not awaited."""
        whole = command or [*COMMAND, "--processes", "1", *options]
        log = self._directory / f"worker-{len(self.workers)}.log"
        where = {"DJANGO_SETTINGS_MODULE": "tests.chaos.settings", "EMQ_TEST_PARENT": str(os.getpid())}
        worker = Worker(whole, log, {**os.environ, **where, **environment})
        self.workers.append(worker)
        return worker

    def finish(self) -> None:
        """Kill what is left."""
        for worker in self.workers:
            worker.kill()


def state_of(pid: int) -> str:
    """Return the letter for the state of a process, or nothing if it is gone."""
    return _stat(Path(f"/proc/{pid}/stat"))[0]


def _session(leader: int) -> list[tuple[int, str]]:
    """Return (pid, state) of the processes in a session."""
    stats = ((int(path.parent.name), *_stat(path)) for path in Path("/proc").glob("[0-9]*/stat"))
    return [(pid, state) for pid, state, session in stats if session == leader]


def _stat(path: Path) -> tuple[str, int]:
    """Return (state, session) of a process."""
    try:
        state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
    except (FileNotFoundError, ProcessLookupError):
        return "", 0
    return state, int(session)
