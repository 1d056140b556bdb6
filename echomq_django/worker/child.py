"""The process that runs jobs. Its supervisor renews the leases; a child only does so when it is orphaned."""

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from echomq_django.bus import jobs
from echomq_django.bus.queue import Queue
from echomq_django.exceptions import BusError
from echomq_django.worker.board import Board, boottime
from echomq_django.worker.config import WorkerConfig
from echomq_django.worker.consumer import Consumer, Source
from echomq_django.worker.executor import Executor
from echomq_django.worker.hands import Ended, Hands, Held, Starter, start_thread
from echomq_django.worker.prefetch import Prefetch
from echomq_django.worker.processes import end_forks
from echomq_django.worker.rota import Rota

logger = logging.getLogger("echomq_django.worker")

MEMORY = Path("/proc/self/statm")
_MB = 1 << 20


class Child:
    """Claims and runs jobs until its supervisor says stop, or is gone.

    `control` is the reading end of a pipe whose other end only the supervisor has: a byte means stop, its end that the
    supervisor is gone. With `alone` it runs one job and leaves; without, it calls the supervisor when one is to be run
    so. `turn` numbers the children, so that not each of them begins with the same queue.
    """

    def __init__(
        self,
        config: WorkerConfig,
        queues: Sequence[Queue],
        holder: str,
        board: Board,
        control: int,
        call: Callable[[], None],
        *,
        alone: bool = False,
        turn: int = 0,
        start: Starter = start_thread,
    ) -> None:
        self._config, self._queues, self._holder, self._board, self._control = config, queues, holder, board, control
        self._executor = Executor(config.alias, holder, board=board)
        self._hands = Hands(board, self._run_only if alone else self._executor.run, start, self._executor.is_light)
        self._alone = alone
        prefetch = Prefetch(0 if alone else board.threads)
        rota = Rota([weight for _, weight in config.queues], strict=config.strict, turn=turn)
        source = Source(queues, holder, alone=alone)
        self._consumer = Consumer(source, rota, self._hands, prefetch, self._announce, call)
        self._jobs_left = config.max_jobs
        self._orphaned_at = 0.0
        self._renewed_at = 0.0

    def run(self) -> int:
        """Serve until stopped; returns the exit code: 0 as asked, 1 when the supervisor is gone."""
        try:
            while not (self._consumer.stopping and self._consumer.finished):
                self._board.turned_at, self._board.woken_at = boottime(), self._consumer.woken_at
                if self._consumer.turn(self._control, self._longest_wait):
                    self._obey()
                if self._alone and self._consumer.finished:
                    self._consumer.stopping = True
                if self._orphaned_at:
                    self._fend_for_itself()
            self._consumer.leave()
        finally:
            self._hands.close()
        return 1 if self._orphaned_at else 0

    def stop(self) -> None:
        """Claim no more, finish what runs and hand back the rest; safe in a signal handler."""
        self._consumer.stopping = True
        self._hands.poke()

    def _run_only(self, held: Held, done: Callable[[Ended], None]) -> Ended | None:
        """Run the one job of this process: what it leaves behind here, no other is to find."""
        self._consumer.stopping = True
        return self._executor.run(held, done)

    @property
    def _longest_wait(self) -> float:
        if self._alone and not self._hands:
            return 0.0
        return max(0.05, self._board.shortest_lease / 6) if self._orphaned_at else 2.0

    def _obey(self) -> None:
        if os.read(self._control, 16):
            self.stop()
        elif not self._orphaned_at:
            logger.error("child %d: the supervisor is gone, finishing what runs", os.getpid())
            self._orphaned_at = boottime()
            # An ended pipe stays readable for ever: watch one that never is.
            self._control, self._never = os.pipe()
            self.stop()

    def _announce(self, ended: Ended) -> None:
        self._executor.announce(ended)
        if self._jobs_left is not None and ended.job is not None:
            self._jobs_left -= 1
        if self._is_used_up:
            self._consumer.stopping = True

    @property
    def _is_used_up(self) -> bool:
        most = self._config.max_memory
        if self._jobs_left is not None and self._jobs_left <= 0:
            return True
        return most is not None and resident_bytes() > most * _MB

    def _fend_for_itself(self) -> None:
        now, lease = boottime(), self._board.shortest_lease
        if lease and now - self._renewed_at > lease / 3:
            self._renewed_at = now
            for index, queue in enumerate(self._queues):
                running = [(one.job_id, one.fence) for one in self._board.running() if one.queue == index]
                try:
                    jobs.extend(queue, self._holder, running)
                except BusError as error:
                    logger.warning("queue %s: leases are not renewed: %s", queue.name, error)
        if now - self._orphaned_at > self._config.grace:
            logger.error("child %d: the grace is over, handing %d jobs back", os.getpid(), len(self._hands))
            self._consumer.give_up()
            end_forks()
            os._exit(1)


def resident_bytes() -> int:
    """Return how much memory this process has, pages that it shares with others included."""
    return int(MEMORY.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
