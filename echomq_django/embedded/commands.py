"""The commands of Django that another command runs beside itself, and how they end."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from echomq_django.embedded.parent import ends_with_parent

_STOP_TIMEOUT = 15.0


class DjangoProcess:
    """A command of the running `manage.py` in a process group of its own: Ctrl-C in the terminal is its parent's alone.

    What it says goes to `output`. On Linux it ends also when its parent is killed, elsewhere it has to be stopped by
    hand then.
    """

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], output: BinaryIO) -> None:
        self._arguments, self._environment, self._output = arguments, environment, output
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process id, also that of its group."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the command, for the first time or anew."""
        self._process = subprocess.Popen(
            command_line(*self._arguments),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env={**self._environment, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
            preexec_fn=ends_with_parent(signal.SIGTERM),
        )

    def exit_code(self) -> int | None:
        """Return None while the command runs; afterwards its exit code, or minus the signal that killed it."""
        return self._process.poll() if self._process else None

    def stop(self) -> None:
        """Stop the command in order, or by force when that takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_TIMEOUT)
        self.kill()

    def kill(self) -> None:
        """Kill what is left of the command and of the processes that it forked."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        if self._process:
            self._process.wait()


def command_line(*arguments: str) -> list[str]:
    """Return how to run a command of Django in the way in which this one was run: `manage.py`, or `-m django`."""
    program = Path(sys.argv[0])
    # The file behind `-m django` can't be run by its path: its folder would hide modules of Python.
    return [sys.executable, *(["-m", "django"] if program.name == "__main__.py" else [str(program)]), *arguments]
