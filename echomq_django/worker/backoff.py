"""How long to wait before trying again: a failed job, or a server that does not answer."""

import random
from collections.abc import Callable, Sequence

_FIRST_S, _FACTOR, _LONGEST_S, _JITTER = 10.0, 5.0, 3600.0, 0.15

Backoff = float | Sequence[float] | Callable[[int], float]


def default_backoff(failures: int) -> float:
    """Return the seconds to wait after the n-th failure: 10, 50, 250, 1250, then an hour each, give or take 15 %."""
    seconds = min(_FIRST_S * _FACTOR ** min(failures - 1, 10), _LONGEST_S)
    return seconds * random.uniform(1 - _JITTER, 1 + _JITTER)


def delay_ms(backoff: Backoff | None, failures: int) -> int:
    """Return the milliseconds to wait after the n-th failure; the last of a list of seconds is repeated."""
    if backoff is None:
        seconds = default_backoff(failures)
    elif callable(backoff):
        seconds = backoff(failures)
    elif isinstance(backoff, Sequence):
        seconds = backoff[min(failures, len(backoff)) - 1]
    else:
        seconds = backoff
    return max(0, round(seconds * 1000))


class Reconnection:
    """The growing pause between attempts to reach a server: 50 ms to 1 s, so that no lease is lost to politeness."""

    def __init__(self) -> None:
        self._pause = 0.0

    @property
    def waiting(self) -> bool:
        """Whether the last attempt failed."""
        return self._pause > 0

    def failed(self) -> float:
        """Note a failure and return the seconds to wait."""
        self._pause = min(1.0, max(0.05, self._pause * 2))
        return self._pause * random.uniform(0.5, 1.0)

    def worked(self) -> bool:
        """Note a success; True if it ends an outage."""
        ended, self._pause = self.waiting, 0.0
        return ended
