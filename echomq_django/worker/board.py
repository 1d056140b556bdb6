"""Shared memory between a supervisor and one child: what the child runs, readable after any kind of death."""

import mmap
import time
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

_SECONDS = Struct("<d")
_SLOTS_AT = 3 * _SECONDS.size
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


class _Seconds:
    """Seconds that have a place of their own on a board; 0 before they are written."""

    def __init__(self, place: int) -> None:
        self._at = place * _SECONDS.size

    def __get__(self, board: "Board", owner: object = None) -> float:
        return float(_SECONDS.unpack_from(board._memory, self._at)[0])

    def __set__(self, board: "Board", seconds: float) -> None:
        _SECONDS.pack_into(board._memory, self._at, seconds)


class Board:
    """One page written by a child and read by its supervisor, never locked: a place for each job that can run at once.

    The child writes a slot before it raises the slot's first byte, and lowers it before it writes again, so that a
    reader sees a whole job or none, whenever the writer dies.

    `shortest_lease` is that in the child's hands, 0 when they are empty. Its claiming loop began its latest turn at
    `turned_at` and took its latest wake-up of a queue at `woken_at`, both in `boottime()`.
    """

    shortest_lease, turned_at, woken_at = _Seconds(0), _Seconds(1), _Seconds(2)

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
    def busy_at(self) -> float:
        """When the child had something to do, as far as can be told: now if it holds jobs, else at its wake-up."""
        return boottime() if self.shortest_lease else self.woken_at

    def close(self) -> None:
        """Give the memory back."""
        self._memory.close()
