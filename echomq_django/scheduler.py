"""What a worker's keeper does about schedules: it fires the rows of the cluster `emq` when they are due.

The job is pushed first and the row is saved after it, so a death in between costs nothing: whoever tries next finds the
slot fired and saves the row. A `qcluster` saves first; what it took and has not pushed yet is fired here all the same.
"""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import InterfaceError, OperationalError, models, transaction

from echomq_django.exceptions import BusError
from echomq_django.floor import database
from echomq_django.schedules import CLUSTER, DUTIES, can_be_stored, order_of, rows
from echomq_django.slots import Slot, instant, slot_of, stored

logger = logging.getLogger("echomq_django.worker")

_LOOK_S = 5.0  # how soon a new row, an edit or a cured one is noticed
_AGAIN_S = 0.25  # how soon a row is tried again that another process has
_SOONEST_S = 0.02
_MAX_ROWS = 200


class Scheduler:
    """Fires due rows, each in a transaction of its own; any number of processes may do it at once."""

    def __init__(self) -> None:
        self._next_runs: dict[int, datetime] = {}  # as seen before anybody could move them on
        self._resting: dict[int, datetime] = {}  # broken rows, until when
        self._broken: dict[int, str] = {}
        self._is_ready = False

    def turn(self) -> float:
        """Fire what is due, and return the seconds until something else is.

        A row that can't be fired stays due and is tried again every few seconds, with one line in the log. Raises the
        `BusError` of a server that is away once the rows for other servers are done.
        """
        self._is_ready = self._is_ready or can_be_stored(rows().db)
        if not self._is_ready:
            return _LOOK_S
        now, away = datetime.now(UTC), dict[str, BusError]()
        self._look(now)
        due = sorted((asked, pk) for pk, asked in self._next_runs.items() if asked <= now)
        for asked, pk in due[:_MAX_ROWS]:
            self._serve(pk, asked, away)
        for error in away.values():
            raise error
        return self._pause()

    def _look(self, now: datetime) -> None:
        """Learn which rows are due until the next look; what was due before and is not done stays due."""
        self._resting = {pk: until for pk, until in self._resting.items() if until > now}
        self._next_runs = {pk: moment for pk, moment in self._next_runs.items() if moment <= now}
        soon = self._rows().filter(next_run__lte=stored(now + timedelta(seconds=_LOOK_S)))
        for pk, next_run in soon.exclude(pk__in=self._resting).values_list("pk", "next_run"):
            self._next_runs.setdefault(pk, instant(next_run, now))

    def _pause(self) -> float:
        now = datetime.now(UTC)
        left = min(((moment - now).total_seconds() for moment in self._next_runs.values()), default=_LOOK_S)
        return _AGAIN_S if left <= 0 else min(max(left, _SOONEST_S), _LOOK_S)

    def _rows(self) -> models.QuerySet[Any]:
        return rows().filter(cluster=CLUSTER).exclude(repeats=0).exclude(func__in=DUTIES)

    def _serve(self, pk: int, asked: datetime, away: dict[str, BusError]) -> None:
        row = None
        try:
            with transaction.atomic(using=rows().db):
                row = database.unclaimed(self._rows().filter(pk=pk)).first()
                if row is not None:
                    self._fire(row, asked, away)
                elif not self._rows().filter(pk=pk).exists():
                    del self._next_runs[pk]
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:  # anybody may have written the row, and the code that it names
            self._refused(pk, row, error)

    def _fire(self, row: Any, asked: datetime, away: dict[str, BusError]) -> None:
        now, order, pk = datetime.now(UTC), order_of(row), row.pk
        slot = slot_of(row, order.zone, asked, now)
        alias = order.step.task.backend
        if alias in away:
            return
        try:
            fired = order.fire(slot.due)
        except BusError as error:
            away[alias] = error
            return
        if fired and slot.late:
            logger.warning("%s was due at %s: of all that it missed, only %s is fired", _name(row), asked, slot.due)
        if self._broken.pop(pk, None) is not None:
            logger.info("%s is fired again", _name(row))
        if instant(row.next_run, now) <= now:  # else a cluster has moved it on
            _save(row, slot)
        del self._next_runs[pk]
        if slot.following:
            self._next_runs[pk] = slot.following

    def _refused(self, pk: int, row: Any, error: Exception) -> None:
        self._next_runs.pop(pk, None)
        self._resting[pk] = datetime.now(UTC) + timedelta(seconds=_LOOK_S)
        if self._broken.get(pk) != str(error):
            self._broken[pk] = str(error)
            logger.error("%s is not fired: %s", _name(row) if row else f"row {pk} of django-q2", error)


def _save(row: Any, slot: Slot) -> None:
    """Note the next run as django-q2 would, and count down the runs that are left."""
    if slot.following is None and row.repeats < 0:
        row.delete()
        return
    row.repeats = 0 if slot.following is None else max(row.repeats - 1, -1)
    row.next_run = stored(slot.following) if slot.following else row.next_run
    row.save(update_fields=["next_run", "repeats"])


def _name(row: Any) -> str:
    return f"schedule {row.name!r} (row {row.pk} of django-q2)"
