"""The supervisor's duties on one queue: recover what was lost, move what is due, and know when to look again."""

from collections.abc import Callable
from math import inf

from echomq_django.bus import recovery, schedule
from echomq_django.bus.queue import Queue
from echomq_django.bus.recovery import Recovered
from echomq_django.worker.board import boottime

_CHUNKS = 10

Report = Callable[[Queue, Recovered], None]


class Beat:
    """Passes over `queue`, one after the other: after `beat` seconds, or after `rest` while nobody has anything to do.

    `found` is what the latest pass found, `alone` whether something may be run alone. What waits for a time is moved at
    that time, however long the rest is.
    """

    def __init__(self, queue: Queue, beat: float, rest: float) -> None:
        self.queue, self.found, self.alone = queue, Recovered([], [], [], []), False
        self._beat, self._rest = beat, max(beat, rest)
        self._passed_at = self._due_at = 0.0

    def next_at(self, busy_at: float) -> float:
        """Return when the next pass is due, in `boottime()`; `busy_at` is when this worker had something to do.

        The rest begins when others have no leases either, and this worker had nothing for the whole beat before a pass:
        so that pass has seen what its last job left behind, such as a death.
        """
        in_use = self.found.active or self.alone or busy_at > self._passed_at - self._beat
        return min(self._passed_at + (self._beat if in_use else self._rest), self._due_at)

    def turn(self, report: Report) -> None:
        """Do one pass and `report` what was recovered.

        Raises `BusError`; then it stays due, so that no moment without a pass can be taken for the server's return.
        """
        self.found = self._recover(report)
        wait = self._promote()
        self._passed_at = boottime()
        self._due_at = self._passed_at + wait

    def hurry(self) -> None:
        """Let the next pass be due now."""
        self._due_at = 0.0

    def _recover(self, report: Report) -> Recovered:
        for _ in range(_CHUNKS):
            recovered = recovery.recover(self.queue, beat_ms=round(self._beat * 1000))
            report(self.queue, recovered)
            if not recovered.again:
                break
        return recovered

    def _promote(self) -> float:
        """Move what is due, and return the seconds until something else is."""
        due_ms, self.alone = self.found.due_ms, False
        for _ in range(_CHUNKS if due_ms == 0 else 0):
            promoted = schedule.promote(self.queue)
            due_ms, self.alone = promoted.next_due_ms, promoted.alone
            if not promoted.again:
                break
        return inf if due_ms is None else due_ms / 1000
