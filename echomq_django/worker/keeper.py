"""The process for the database duties, so that a database that hangs never delays the renewal of a lease."""

import logging
import os
import select
from collections.abc import Callable, Sequence

from django.db import DatabaseError, InterfaceError, connections

from echomq_django import signals
from echomq_django.exceptions import BusError
from echomq_django.worker.backoff import Reconnection
from echomq_django.worker.board import boottime

logger = logging.getLogger("echomq_django.worker")

_SIGNALS = {
    "stalled": (signals.job_stalled, signals.job_recovered),
    "suspect": (signals.job_recovered,),
    "unstarted": (signals.job_recovered,),
    "died": (signals.job_stalled,),
}

Duty = Callable[[], float]


class Keeper:
    """Does its duties when the supervisor says that there is work, and each of them when its time has come.

    A duty does a part of what there is and returns the seconds until it has more to do, 0 for at once. Words on the
    pipe: `mirror`, `stop`, or `<what> <queue> <id>` for a job whose recovery is to be signalled.
    """

    def __init__(self, alias: str, duties: Sequence[Duty], control: int) -> None:
        self._alias, self._control = alias, control
        self._due_at = dict.fromkeys(duties, 0.0)
        self._rest = b""
        self._stopping = False
        self._database = Reconnection()

    def run(self) -> int:
        """Serve until stopped or until the supervisor is gone; does its duties a last time before it leaves."""
        while not self._stopping:
            pause = self._turn()
            if select.select([self._control], [], [], pause)[0]:
                self._obey(os.read(self._control, 65536))
        self._hurry()
        self._turn()
        return 0

    def _turn(self) -> float:
        while not (pause := self._pass()):
            pass
        return pause

    def _pass(self) -> float:
        """Do a part of each duty that is due, so that none waits for all of another or for what another one lacks."""
        errors = []
        for duty in [duty for duty, due_at in self._due_at.items() if boottime() >= due_at]:
            try:
                self._due_at[duty] = boottime() + duty()
            except (DatabaseError, InterfaceError, BusError) as error:
                errors.append(error)
                _drop_connections()
        if errors:
            if not self._database.waiting:
                logger.error("dead jobs and schedules wait, trying again: %s", errors[0])
            return self._database.failed()
        if self._database.worked():
            logger.info("dead jobs and schedules wait no more")
        return max(0.0, min(self._due_at.values()) - boottime())

    def _hurry(self) -> None:
        self._due_at = dict.fromkeys(self._due_at, 0.0)

    def _obey(self, words: bytes) -> None:
        if not words:
            self._stopping = True
            return
        *lines, self._rest = (self._rest + words).split(b"\n")
        for line in lines:
            what, *about = line.decode().split(" ")
            if what == "stop":
                self._stopping = True
            elif what == "mirror":
                self._hurry()
            elif what in _SIGNALS:
                announce(what, self._alias, *about)


def announce(what: str, alias: str, queue: str, job_id: str) -> None:
    """Signal what recovery made of a job."""
    for kind in _SIGNALS[what]:
        kind.send_robust(sender=Keeper, queue=queue, job_id=job_id, backend=alias)


def repeated(move: Callable[[], int], pause: float) -> Duty:
    """Return a duty that repeats `move` until it moves nothing, and then waits to be told of more, or for a `pause`."""
    return lambda: 0.0 if move() else pause


def _drop_connections() -> None:
    for connection in connections.all(initialized_only=True):
        connection.close()
