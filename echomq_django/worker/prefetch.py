"""How many jobs a child may hold beyond those that run."""

_HORIZON_S = 0.02  # a job that waits longer than this in a hand could run elsewhere
_MOST = 200
_SMOOTHING = 0.2


class Prefetch:
    """Measures how long jobs run and holds as many in reserve as the threads finish within 20 ms."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._seconds = 1.0  # unknown jobs are taken for long ones

    def measured(self, seconds: float) -> None:
        """Note how long a job ran."""
        self._seconds += _SMOOTHING * (seconds - self._seconds)

    @property
    def reserve(self) -> int:
        """How many jobs may wait in the hand."""
        return min(_MOST, int(self._threads * _HORIZON_S / max(self._seconds, 1e-6)))
