"""Watching children from outside: what is beyond its time limit, or stands still, is ended with its process."""

import logging
from collections.abc import Sequence
from math import inf

from echomq_django.worker.board import Running, boottime
from echomq_django.worker.processes import STOP, Process

logger = logging.getLogger("echomq_django.worker")

_MOST_MARGIN_S = 30.0  # for the neighbours of a job beyond its limit
_SETTLE_S = 1.0  # for what the last neighbour has to tell the server
_FROZEN_S = 30.0
_ASLEEP_S = 10.0  # who was not looked at for so long may have been stopped together with this process


class Watch:
    """Looks at one child after the other.

    `queues` are (name, time limit in seconds); a task may say otherwise. `grace` is what the neighbours of a job beyond
    its limit get to finish, if it is less than 30 seconds.
    """

    def __init__(self, queues: Sequence[tuple[str, float]], grace: float) -> None:
        self._queues, self._margin = queues, min(_MOST_MARGIN_S, grace)
        self._looked_at = self._awake_since = boottime()

    def look_at(self, process: Process) -> None:
        """Warn of jobs that have used half of their time, and end a process that has to go."""
        running, now = list(process.board.running()), self._look()
        self._warn(process, [one for one in running if now - one.started >= self._limit(one) / 2])
        if overdue := [one for one in running if now - one.started >= self._limit(one)]:
            self._end(process, overdue, alone=len(overdue) == len(running))
            return
        process.ends_at = inf
        turned_at = max(process.started_at, process.board.turned_at, self._awake_since)
        if not running and now - turned_at > max(_FROZEN_S, process.board.shortest_lease):
            logger.error("%s %d claims nothing and runs nothing: it is replaced", process.kind, process.pid)
            process.kill()

    def _look(self) -> float:
        now = boottime()
        if now - self._looked_at > _ASLEEP_S:
            self._awake_since = now
        self._looked_at = now
        return now

    def _warn(self, process: Process, late: list[Running]) -> None:
        for one in late:
            if one not in process.late:
                words = "job %s in %s has run for half of its time limit of %g s"
                logger.warning(words, one.job_id, self._queues[one.queue][0], self._limit(one))
        process.late = late

    def _end(self, process: Process, overdue: list[Running], *, alone: bool) -> None:
        now = boottime()
        if process.ends_at == inf:
            process.leaving, process.ends_at = True, now + self._margin
            process.say(STOP)
            for one in overdue:
                words = "job %s in %s is beyond its time limit of %g s: process %d ends with it, %s"
                others = "which runs nothing else" if alone else f"its other jobs have {self._margin:g} s to finish"
                logger.error(words, one.job_id, self._queues[one.queue][0], self._limit(one), process.pid, others)
        if alone:
            process.ends_at = min(process.ends_at, now + _SETTLE_S)
        if now >= process.ends_at:
            process.overdue = overdue
            process.kill()

    def _limit(self, one: Running) -> float:
        return one.time_limit or self._queues[one.queue][1]
