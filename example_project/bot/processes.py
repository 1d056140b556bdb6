"""The commands of Django that a demo runs beside itself, and how they end."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

MANAGE = Path(__file__).resolve().parents[1] / "manage.py"

_STOP_TIMEOUT = 15.0
_PR_SET_PDEATHSIG = 1
_prctl = getattr(ctypes.CDLL(None), "prctl", None)


class DjangoProcess:
    """A command of `manage.py` in a process group of its own, so that Ctrl-C in the terminal is the demo's alone.

    It writes to `log`. On Linux it ends also when the demo is killed; elsewhere it then has to be stopped by hand.
    """

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._arguments, self._environment, self.log = arguments, environment, log
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
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(MANAGE), *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
                preexec_fn=_end_with_parent,
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

    def last_words(self) -> str:
        """Return the end of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-10:])


def _end_with_parent() -> None:
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
