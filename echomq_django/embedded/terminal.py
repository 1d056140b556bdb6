"""The terminal of a command that runs others: what it reads there, and how it learns that it is to end."""

import os
import select
import signal
import sys
from types import FrameType

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminal:
    """Where a command prints to, for as long as somebody reads it."""

    def __init__(self) -> None:
        self._lost = False

    def say(self, text: str) -> None:
        """Print a line at once; nothing fails when nobody can read it any more."""
        try:
            print(text, flush=True)
        except OSError:
            # What follows, above all the end of the others, must not fail because of it.
            self._lost = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def is_gone(self, seconds: float) -> bool:
        """Wait for `seconds`, or until nobody can read any more what is printed.

        A closed terminal sends SIGHUP to the first process in it alone, and not each one of those passes it on.
        """
        if self._lost:
            return True
        output = select.poll()
        output.register(sys.stdout.fileno(), 0)
        return bool(output.poll(seconds * 1000))


def leave_on_signals() -> None:
    """Let the first INT, TERM or HUP raise `SystemExit(0)` in the main thread; further ones don't interrupt the end."""
    for number in _STOP_SIGNALS:
        signal.signal(number, _leave)


def _leave(number: int, frame: FrameType | None) -> None:
    for each in _STOP_SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    sys.exit(0)
