"""The process that no job can touch: it keeps leases alive, recovers lost ones, and watches its children.

One thread, and only the Redis side: no database connection, no handler, nothing that can hang for long.
"""

import logging
import os
import select
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf

from echomq_django.bus import groups
from echomq_django.bus import queue as queues_
from echomq_django.bus.queue import Queue
from echomq_django.bus.recovery import Recovered
from echomq_django.exceptions import BusError
from echomq_django.worker import leases
from echomq_django.worker.backoff import Reconnection
from echomq_django.worker.beat import Beat
from echomq_django.worker.board import boottime
from echomq_django.worker.config import WorkerConfig
from echomq_django.worker.processes import STOP, STOP_SIGNALS, Forks, Process, Serve
from echomq_django.worker.threads import Threads
from echomq_django.worker.watch import Watch

logger = logging.getLogger("echomq_django.worker")

_TICK_S = 0.25  # how soon a first lease in an empty hand is noticed
_SHORT_LIFE_S, _SHORT_LIVES = 2.0, 10
_KEEPER_PAUSE_S, _KEEPER_GRACE_S = 0.5, 10.0
_CLERK_S = 10.0
_ALONE = 255  # no signal has this number


class Supervisor:
    """Runs `config.processes` children, at least one, and one keeper until told to stop.

    It passes over a queue each beat, or each `rest` seconds while nothing is to be done there.
    `serve_child(alone, call)`, `serve_keeper` and `serve_clerk(dead process)` are what the processes do that `place`
    starts; a child that says `call()` knows of a job to be run alone.
    `watch` looks at the children; None where nothing can end them.
    """

    def __init__(
        self,
        config: WorkerConfig,
        queues: Sequence[Queue],
        rest: float,
        serve_child: Callable[[bool, Callable[[], None]], Serve],
        serve_keeper: Serve,
        serve_clerk: Callable[[Process], Serve],
        place: Forks | Threads,
        watch: Watch | None,
    ) -> None:
        self._config, self._queues, self._place, self._watch = config, queues, place, watch
        self._beats = [Beat(queue, config.beat, rest) for queue in queues]
        self._serve_child, self._serve_keeper, self._serve_clerk = serve_child, serve_keeper, serve_clerk
        self._processes: list[Process] = []
        self._estates: list[Process] = []  # dead processes whose jobs the server still believes to be held
        self._wakeup = os.pipe()
        self._busy_at = inf if config.burst else 0.0
        self._spawn_at = 0.0
        self._keeper_at = 0.0
        self._stop_at: float | None = None  # when the grace ends
        self._asked = False
        self._short_lives = 0
        self._handed_back = 0
        self._server = Reconnection()

    def run(self) -> int:
        """Work until stopped; returns the exit code: 0 as asked, 1 gave up, 3 forced with jobs handed back."""
        while not self._finished:
            self._watch_children()
            self._spawn()
            try:
                self._serve_leases()
                if self._server.worked():
                    logger.info("the server is back")
                pause = _TICK_S
            except BusError as error:  # also one that an operator can cure, such as a rule of the ACL
                if not self._server.waiting:
                    logger.error("the server is gone, trying again: %s", error)
                pause = self._server.failed()
            self._enforce_grace()
            self._sleep(pause)
            self._bury()
        self._end_keeper()
        if self._short_lives >= _SHORT_LIVES:
            return 1
        return 3 if self._handed_back else 0

    def listen(self) -> None:
        """Take over the signals that stop a worker; to be called by the main thread.

        Their handlers do nothing: Python writes the numbers into a pipe, at once, whatever the main thread is doing.
        """
        for end in self._wakeup:
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wakeup[1], warn_on_full_buffer=False)
        for number in (*STOP_SIGNALS, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)

    def _serve_leases(self) -> None:
        for process in self._processes:
            leases.renew(process, self._queues)
        for process in [one for one in self._estates if self._is_settled(one)]:
            count = leases.take_back(process, self._queues, self._report)
            if process.forced and self._stop_at is not None:
                self._handed_back += count
            self._estates.remove(process)
            process.close()
            for beat in self._beats:  # what it held, or what waited for its end, may be to run alone now
                beat.hurry()
        self._beat()

    def _is_settled(self, dead: Process) -> bool:
        """Let a clerk tell the server of the jobs that a process was killed for; True once that is over."""
        if not dead.overdue or (dead.clerk and dead.clerk not in self._processes):
            return True
        if dead.clerk is None:
            dead.renewed_at = 0.0  # so that a server that is away says so before a clerk finds out
        leases.renew(dead, self._queues)
        if dead.clerk is None:
            dead.clerk = self._start("clerk", 1, self._serve_clerk(dead))
        elif boottime() - dead.clerk.started_at > _CLERK_S:
            logger.warning("clerk %d does not come to an end: it is killed", dead.clerk.pid)
            dead.clerk.kill()
        return False

    def _beat(self) -> None:
        self._busy_at = max([self._busy_at, *(process.board.busy_at for process in self._processes)])
        # While the server is gone all are due: a tick without a word would pass for its return.
        due = [beat for beat in self._beats if self._server.waiting or boottime() >= beat.next_at(self._busy_at)]
        for beat in due:
            beat.turn(self._report)
            if beat.alone:
                self._run_alone()
            if beat.found.deaths or beat.found.errands:
                self._tell_keeper(b"mirror\n")
        if due:
            self._leave_if_done()

    def _leave_if_done(self) -> None:
        # In the order in which work moves: what has left one place since then is seen in the next.
        looks = (look(queue) for look in (_is_drained, _has_told, _is_drained) for queue in self._queues)
        if self._config.burst and self._stop_at is None and all(looks):
            logger.info("nothing is left to do")
            self._stop()

    def _report(self, queue: Queue, recovered: Recovered) -> None:
        for kind, ids, words in (
            ("stalled", recovered.stalled, "stalled and is back in line"),
            ("died", recovered.died, "stalled once too often and is dead"),
            ("suspect", recovered.suspect, "may have killed its process and will run alone"),
            ("unstarted", recovered.unstarted, "had not started and is back in line"),
        ):
            for job_id in ids:
                logger.warning("job %s in %s %s", job_id, queue.name, words)
                self._tell_keeper(f"{kind} {queue.name} {job_id}\n".encode())
        if recovered.died:
            self._tell_keeper(b"mirror\n")

    def _spawn(self) -> None:
        if not self._of("keeper") and boottime() >= self._keeper_at:
            self._start("keeper", 1, self._serve_keeper)
        if self._stop_at is not None or boottime() < self._spawn_at:
            return
        while sum(not one.leaving for one in self._of("child")) < max(1, self._config.processes):
            self._start("child", self._config.threads, self._serve_child(False, self._call))

    def _run_alone(self) -> None:
        """Start the process that claims a job to be run alone, unless there is one: they are run one at a time."""
        if self._stop_at is None and boottime() >= self._spawn_at and not self._of("alone"):
            self._start("alone", 1, self._serve_child(True, self._call))

    def _call(self) -> None:
        """Tell the supervisor, from any of its processes, that a job is to be run alone."""
        with suppress(BlockingIOError):  # full of unread bytes: it hears one of them
            os.write(self._wakeup[1], bytes([_ALONE]))

    def _start(self, kind: str, threads: int, serve: Serve) -> Process:
        process = self._place.start(kind, threads, serve, self._processes + self._estates)
        self._processes.append(process)
        return process

    def _watch_children(self) -> None:
        for process in self._of("child") + self._of("alone"):
            if self._watch and not process.forced:
                self._watch.look_at(process)

    def _bury(self) -> None:
        for process, code in self._place.ended():
            self._processes.remove(process)
            self._estates.append(process)
            if code and not process.forced:
                running = ", ".join(one.job_id for one in process.board.running()) or "nothing"
                cause = f"signal {-code}" if code < 0 else f"exit code {code}"
                logger.warning("%s %d died (%s) while running %s", process.kind, process.pid, cause, running)
            self._note_life(process, code)

    def _note_life(self, process: Process, code: int) -> None:
        if process.kind == "keeper":
            self._keeper_at = boottime() + _KEEPER_PAUSE_S
        if process.kind in ("keeper", "clerk"):  # what ends them is no reason to run no jobs
            return
        short = code != 0 and boottime() - process.started_at < _SHORT_LIFE_S
        if not short or any(process.board.running()):
            self._short_lives = 0
            return
        self._short_lives += 1
        self._spawn_at = boottime() + min(5.0, 0.1 * 2**self._short_lives)
        if self._short_lives == _SHORT_LIVES:
            logger.error("%d processes in a row died at their start: giving up", self._short_lives)
            self._stop()

    def _asked_to_stop(self, number: int) -> None:
        """The first time: finish what runs within the grace. The second time: hand it back now. HUP does not count."""
        if number == signal.SIGHUP or not self._asked:
            self._stop()
        else:
            self._stop_at = boottime()
        self._asked = self._asked or number != signal.SIGHUP

    def _stop(self) -> None:
        if self._stop_at is None:
            self._stop_at = boottime() + self._config.grace
            logger.info("stopping: %s s for the jobs that run", self._config.grace)
            for process in self._of("child") + self._of("alone"):
                process.say(STOP)

    def _enforce_grace(self) -> None:
        if self._stop_at is not None and boottime() >= self._stop_at:
            for process in (one for one in self._of("child") + self._of("alone") if not one.forced):
                logger.warning("child %d did not finish in time: its jobs are handed back", process.pid)
                process.kill()

    def _sleep(self, pause: float) -> None:
        beat_at = min(beat.next_at(self._busy_at) for beat in self._beats)
        until = [beat_at - boottime(), *([self._stop_at - boottime()] if self._stop_at is not None else [])]
        longest = max(0.0, min(pause, *until)) if not self._server.waiting else pause
        if select.select([self._wakeup[0]], [], [], longest)[0]:
            for number in os.read(self._wakeup[0], 4096):
                if number in STOP_SIGNALS:
                    self._asked_to_stop(number)
                elif number == _ALONE:
                    self._run_alone()

    @property
    def _finished(self) -> bool:
        return self._stop_at is not None and not (self._of("child") or self._of("alone") or self._estates_worth_a_wait)

    @property
    def _estates_worth_a_wait(self) -> bool:
        # If the server does not come back within the grace, recovery by lease time does the rest.
        return bool(self._estates) and self._stop_at is not None and boottime() < self._stop_at + 5

    def _end_keeper(self) -> None:
        deadline = boottime() + _KEEPER_GRACE_S
        self._tell_keeper(b"stop\n")
        while self._of("keeper") and boottime() < deadline:
            select.select([], [], [], 0.02)
            self._bury()
        for process in self._of("keeper"):
            logger.warning("the keeper does not stop: it is ended")
            process.kill()

    def _tell_keeper(self, word: bytes) -> None:
        for process in self._of("keeper"):
            process.say(word)

    def _of(self, kind: str) -> list[Process]:
        return [process for process in self._processes if process.kind == kind]


def _is_drained(queue: Queue) -> bool:
    counts = queues_.count(queue)
    return not (counts.pending or counts.active or counts.suspect or counts.next_due_ms == 0)


def _has_told(queue: Queue) -> bool:
    return not groups.errands(queue, 1)
