"""Shared memory between a supervisor and one child: what the child runs, readable after any kind of death."""

import mmap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct

_HAND = Struct("<d")  # the shortest lease in hand in seconds; 0 = nothing in hand
_SLOT = Struct("<BB29sdd")  # used, queue, id, fence, started


def boottime() -> float:
    """Return seconds of a clock that also runs while the machine sleeps or a process is stopped."""
    return time.clock_gettime(_CLOCK)


# macOS has no CLOCK_BOOTTIME; its monotonic clock is the nearest.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@dataclass(frozen=True, slots=True)
class Running:
    """A job that a thread of a child is running: its queue (index), id, fence and start in `boottime()`."""

    queue: int
    job_id: str
    fence: int
    started: float


class Board:
    """One page written by a child and read by its supervisor, never locked.

    The child writes a slot before it raises the slot's first byte, and lowers it before it writes again, so that a
    reader sees a whole job or none, whenever the writer dies.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._memory = mmap.mmap(-1, _HAND.size + threads * _SLOT.size)

    def begin(self, thread: int, running: Running) -> None:
        """Note that `thread` starts a job."""
        at = _HAND.size + thread * _SLOT.size
        job_id = running.job_id.encode()
        _SLOT.pack_into(self._memory, at, 0, running.queue, job_id, running.fence, running.started)
        self._memory[at] = 1

    def end(self, thread: int) -> None:
        """Note that `thread` runs nothing any more."""
        self._memory[_HAND.size + thread * _SLOT.size] = 0

    def running(self) -> Iterator[Running]:
        """Yield what the child runs now, or ran when it died."""
        for thread in range(self.threads):
            used, queue, job_id, fence, started = _SLOT.unpack_from(self._memory, _HAND.size + thread * _SLOT.size)
            if used:
                yield Running(queue, job_id.decode(), int(fence), started)

    @property
    def shortest_lease(self) -> float:
        """The shortest lease in the child's hands in seconds; 0 when they are empty."""
        return float(_HAND.unpack_from(self._memory)[0])

    @shortest_lease.setter
    def shortest_lease(self, seconds: float) -> None:
        _HAND.pack_into(self._memory, 0, seconds)

    def close(self) -> None:
        """Give the memory back."""
        self._memory.close()
