"""The process for the database duties, so that a database that hangs never delays the renewal of a lease."""

import logging
import os
import select
from collections.abc import Callable, Sequence

from django.db import DatabaseError, InterfaceError, connections

from echomq_django import signals
from echomq_django.exceptions import BusError
from echomq_django.worker.backoff import Reconnection

logger = logging.getLogger("echomq_django.worker")

_IDLE_S = 5.0  # for what nobody announces, such as a parked job
_SIGNALS = {
    "stalled": (signals.job_stalled, signals.job_recovered),
    "suspect": (signals.job_recovered,),
    "unstarted": (signals.job_recovered,),
    "died": (signals.job_stalled,),
}

Duty = Callable[[], int]


class Keeper:
    """Does its duties when the supervisor says that there is work, and every few seconds.

    A duty returns how many rows it moved; it is repeated while that is not 0. Words on the pipe: `mirror`, `stop`, or
    `<what> <queue> <id>` for a job whose recovery is to be signalled.
    """

    def __init__(self, alias: str, duties: Sequence[Duty], control: int) -> None:
        self._alias, self._duties, self._control = alias, duties, control
        self._rest = b""
        self._stopping = False
        self._database = Reconnection()

    def run(self) -> int:
        """Serve until stopped or until the supervisor is gone; does its duties a last time before it leaves."""
        while not self._stopping:
            pause = self._turn()
            if select.select([self._control], [], [], pause)[0]:
                self._obey(os.read(self._control, 65536))
        self._turn()
        return 0

    def _turn(self) -> float:
        try:
            for duty in self._duties:
                while duty():
                    pass
        except (DatabaseError, InterfaceError, BusError) as error:
            if not self._database.waiting:
                logger.error("dead jobs wait for their mirror, trying again: %s", error)
            _drop_connections()
            return self._database.failed()
        if self._database.worked():
            logger.info("dead jobs are mirrored again")
        return _IDLE_S

    def _obey(self, words: bytes) -> None:
        if not words:
            self._stopping = True
            return
        *lines, self._rest = (self._rest + words).split(b"\n")
        for line in lines:
            what, *about = line.decode().split(" ")
            if what == "stop":
                self._stopping = True
            for kind in _SIGNALS.get(what, ()):
                kind.send_robust(sender=type(self), queue=about[0], job_id=about[1], backend=self._alias)


def _drop_connections() -> None:
    for connection in connections.all(initialized_only=True):
        connection.close()
