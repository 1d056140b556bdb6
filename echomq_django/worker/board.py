"""Shared memory between a supervisor and one child: what the child runs, readable after any kind of death."""

import mmap
import time
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

_SECONDS = Struct("<d")
# The shortest lease in hand, 0 = nothing in hand; the last turn; the last wake-up; the places.
_LEASE_AT, _TURN_AT, _WOKEN_AT, _SLOTS_AT = 0, 8, 16, 24
_SLOT = Struct("<BB29sddd")  # used, queue, id, fence, started, time limit


def boottime() -> float:
    """Return seconds of a clock that also runs while the machine sleeps or a process is stopped."""
    return time.clock_gettime(_CLOCK)


# macOS has no CLOCK_BOOTTIME; its monotonic clock is the nearest.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Running(NamedTuple):
    """A job that a child is running: its queue (index), id, fence and start in `boottime()`.

    `time_limit` is what its task says in seconds, `inf` for none; 0 leaves it to the queue.
    """

    queue: int
    job_id: str
    fence: int
    started: float
    time_limit: float = 0.0


class Board:
    """One page written by a child and read by its supervisor, never locked: a place for each job that can run at once.

    The child writes a slot before it raises the slot's first byte, and lowers it before it writes again, so that a
    reader sees a whole job or none, whenever the writer dies.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._memory = mmap.mmap(-1, _SLOTS_AT + threads * _SLOT.size)

    def begin(self, place: int, running: Running) -> None:
        """Note that a job starts in `place`."""
        at = _SLOTS_AT + place * _SLOT.size
        job_id = running.job_id.encode()
        _SLOT.pack_into(self._memory, at, 0, running.queue, job_id, running.fence, running.started, running.time_limit)
        self._memory[at] = 1

    def limit(self, place: int, seconds: float) -> None:
        """Note the time limit of the job in `place`."""
        _SECONDS.pack_into(self._memory, _SLOTS_AT + (place + 1) * _SLOT.size - _SECONDS.size, seconds)

    def end(self, place: int) -> None:
        """Note that nothing runs in `place` any more."""
        self._memory[_SLOTS_AT + place * _SLOT.size] = 0

    def running(self) -> Iterator[Running]:
        """Yield what the child runs now, or ran when it died."""
        for place in range(self.threads):
            used, queue, job_id, fence, *times = _SLOT.unpack_from(self._memory, _SLOTS_AT + place * _SLOT.size)
            if used:
                yield Running(queue, job_id.decode(), int(fence), *times)

    @property
    def shortest_lease(self) -> float:
        """The shortest lease in the child's hands in seconds; 0 when they are empty."""
        return float(_SECONDS.unpack_from(self._memory, _LEASE_AT)[0])

    @shortest_lease.setter
    def shortest_lease(self, seconds: float) -> None:
        _SECONDS.pack_into(self._memory, _LEASE_AT, seconds)

    @property
    def turned_at(self) -> float:
        """When the child's claiming loop began its latest turn, in `boottime()`; 0 before the first."""
        return float(_SECONDS.unpack_from(self._memory, _TURN_AT)[0])

    @turned_at.setter
    def turned_at(self, instant: float) -> None:
        _SECONDS.pack_into(self._memory, _TURN_AT, instant)

    @property
    def woken_at(self) -> float:
        """When the child last took a wake-up of a queue, in `boottime()`; 0 before the first."""
        return float(_SECONDS.unpack_from(self._memory, _WOKEN_AT)[0])

    @woken_at.setter
    def woken_at(self, instant: float) -> None:
        _SECONDS.pack_into(self._memory, _WOKEN_AT, instant)

    @property
    def busy_at(self) -> float:
        """When the child had something to do, as far as can be told: now if it holds jobs, else at its wake-up."""
        return boottime() if self.shortest_lease else self.woken_at

    def close(self) -> None:
        """Give the memory back."""
        self._memory.close()
