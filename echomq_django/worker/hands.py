"""The jobs that one child has in its hands, and the threads that run them."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue

from echomq_django.bus.jobs import Completion, Death, Release, Retry
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import Row
from echomq_django.worker.board import Board, Running, boottime

End = Completion | Retry | Death | Release
Starter = Callable[[Callable[[], None]], None]
Run = Callable[["Held", Callable[["Ended"], None]], "Ended | None"]


@dataclass(slots=True, eq=False)
class Held:
    """A leased job. It may start until `renewed_until` (in `boottime()`); after that only if the server says so.

    `place` is its own on the board while it runs.
    """

    queue: Queue
    index: int
    row: Row
    renewed_until: float
    claimed_at: float
    place: int = 0


@dataclass(slots=True)
class Ended:
    """A job that ended in these hands, what the server is to be told, and what the executor made of it.

    `told`: it was told before, and may have heard that.
    """

    held: Held
    end: End
    job: object = None
    seconds: float = 0.0
    told: bool = False


def start_thread(serve: Callable[[], None]) -> None:
    """Start a thread that does not keep the process from ending."""
    threading.Thread(target=serve, name="emq-jobs", daemon=True).start()


class Hands:
    """Hands jobs to threads in the order of their claim, and collects how they ended.

    `run(held, done)` runs one and returns how it ended, or None if it tells `done` later, on another thread: then the
    thread that began it is free for the next one meanwhile, and only its place in the hand stays taken. The thread that
    says `done` begins the next one itself if `is_light(held)`: it never waits in `run`. `start` is called once for each
    thread, with what it is to do until `close()`.

    `fileno()` becomes readable when a job has ended and none waits, or half of those that waited have ended: so that
    the claiming thread can wait for that and for the server at once, and is not woken for each job of a full hand.
    """

    def __init__(
        self,
        board: Board,
        run: Run,
        start: Starter = start_thread,
        is_light: Callable[[Held], bool] = lambda held: False,
    ) -> None:
        self._board, self._run, self._is_light = board, run, is_light
        self._waiting: deque[Held | None] = deque()
        self._ended: deque[Ended] = deque()
        self._held: set[Held] = set()
        self._work: SimpleQueue[None] = SimpleQueue()  # one permit for each that waits
        self._poked = False
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._places: SimpleQueue[int] = SimpleQueue()  # of the board, those of running coroutines left out
        for place in range(board.threads):
            self._places.put(place)
            start(self._serve)

    def __len__(self) -> int:
        return len(self._held)

    @property
    def threads(self) -> int:
        """How many jobs can run at once."""
        return self._board.threads

    @property
    def held(self) -> list[Held]:
        """The jobs in hand: those that wait or run, and those that have ended and were not let go."""
        return list(self._held)

    @property
    def waiting(self) -> int:
        """How many jobs wait for a thread."""
        return len(self._waiting)

    @property
    def idle_threads(self) -> int:
        """How many threads have nothing to do."""
        return max(0, self._board.threads - len(self._held))

    def add(self, jobs: list[Held]) -> None:
        """Hand claimed jobs to the threads."""
        self._held.update(jobs)
        self._note_leases()
        self._waiting.extend(jobs)
        for _ in jobs:
            self._work.put(None)

    def ended(self) -> list[Ended]:
        """Return the jobs that ended since the last call; their leases are kept until `let_go()`."""
        if self._poked:
            self._poked = False  # before the list is read: what ends after that pokes again
            with suppress(BlockingIOError):
                os.read(self._reader, 4096)
        return [self._ended.popleft() for _ in range(len(self._ended))]

    def let_go(self, jobs: Iterable[Held]) -> None:
        """Take jobs out of the hand of whose ends the server knows."""
        self._held.difference_update(jobs)
        self._note_leases()

    def take_back(self, older_than: float = 0.0) -> list[Held]:
        """Take back the jobs that have waited for a thread for more than so many seconds."""
        late: list[Held] = []
        if not self._waiting:
            return late
        before = boottime() - older_than
        with suppress(Empty):
            while True:
                self._work.get_nowait()
                held = self._waiting.popleft()
                if held is None or held.claimed_at > before:
                    self._waiting.appendleft(held)
                    self._work.put(None)
                    break
                late.append(held)
        self._held.difference_update(late)
        return late

    def close(self) -> None:
        """Let each thread end after the job that it runs; nothing may wait."""
        self._waiting.extend([None] * self._board.threads)
        for _ in range(self._board.threads):
            self._work.put(None)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when a job has ended or `poke()` was called."""
        return self._reader

    def poke(self) -> None:
        """Make `fileno()` readable; safe in a signal handler."""
        with suppress(BlockingIOError):  # full of unread bytes: one more says nothing new
            os.write(self._writer, b"1")
        self._poked = True  # after the byte is there: else somebody could read too early, and it would stay for ever

    def _serve(self) -> None:
        place = self._places.get()
        while (held := self._take()) is not None:
            if not self._is_over(held, place):
                place = self._places.get()

    def _take(self) -> Held | None:
        self._work.get()
        return self._waiting.popleft()

    def _is_over(self, held: Held, place: int) -> bool:
        """Run a job; True if it has ended, and its place is free again."""
        held.place, started_at = place, boottime()
        self._board.begin(place, Running(held.index, held.row.job_id, held.row.token.fence, started_at))
        ended = self._run(held, partial(self._go_on, place, started_at))
        if ended is None:
            return False
        self._end(place, started_at, ended)
        return True

    def _go_on(self, place: int, started_at: float, ended: Ended) -> None:
        """Note the end of a job, and use its place for the next one: here, or on a thread."""
        self._end(place, started_at, ended)
        while (held := self._take_light()) is not None:
            if not self._is_over(held, place):
                return
        self._places.put(place)

    def _take_light(self) -> Held | None:
        try:
            self._work.get_nowait()
        except Empty:
            return None
        held = self._waiting.popleft()
        if held is not None and self._is_light(held):
            return held
        self._waiting.appendleft(held)
        self._work.put(None)
        return None

    def _end(self, place: int, started_at: float, ended: Ended) -> None:
        ended.seconds = boottime() - started_at
        self._board.end(place)
        self._ended.append(ended)
        if not self._poked and len(self._ended) >= len(self._waiting):
            self.poke()

    def _note_leases(self) -> None:
        self._board.shortest_lease = min((held.row.lease_ms for held in self._held), default=0) / 1000
