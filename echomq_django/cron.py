"""When a cron expression is due on the clocks of a time zone, which are put forward and back twice a year.

Where the hour is fixed, what counts is the time on the clock: 02:30 comes once a day. A time that the clocks jump over
comes as much later as they jump (02:30 at 03:30), and one that they show twice comes the first time. An expression for
every hour counts real time: a day has 23, 24 or 25 hours.
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from echomq_django.exceptions import InvalidOption, InvalidSetting

try:
    from croniter import croniter
except ImportError:  # an extra of django-q2, which a lock file may have dropped
    croniter = None

_RANDOM = re.compile(r"(^|[\s,])[rR](\(|/|\s|$)")
_JUMP = timedelta(hours=3)  # no clock jumps further
_TICK = timedelta(microseconds=1)


class Cron:
    """A cron expression of 5 fields, 6 with seconds or 7 with years; raises `InvalidOption` for what is none."""

    def __init__(self, expression: Any, zone: tzinfo) -> None:
        if croniter is None:
            raise InvalidSetting("croniter is not installed: install django-q2[croniter]")
        self.expression, self._zone = expression, zone
        if not isinstance(expression, str) or _RANDOM.search(expression):
            raise InvalidOption(f"cron = {expression!r}: must be a cron expression without R")
        try:
            self._croniter = croniter(expression)
        except ValueError as error:
            raise InvalidOption(f"cron = {expression!r}: {error}") from error
        self._at_fixed_hours = self._croniter.expanded[1] != ["*"]

    def after(self, instant: datetime) -> datetime:
        """Return the first due instant after `instant`; raises `InvalidOption` if there is none in 50 years."""
        if not self._at_fixed_hours:
            return self._next_in_real_time(instant, self._offset(instant))
        wall = min(self._walls(instant))
        while (due := self._on_the_clock(wall := self._step(wall, "get_next"))) <= instant:
            pass
        return due

    def before(self, instant: datetime) -> datetime:
        """Return the last due instant up to `instant`, itself included."""
        if not self._at_fixed_hours:
            return self._last_in_real_time(instant)
        wall = max(self._walls(instant)) + _TICK
        while (due := self._on_the_clock(wall := self._step(wall, "get_prev"))) > instant:
            pass
        return due

    def _next_in_real_time(self, instant: datetime, offset: timedelta) -> datetime:
        due = self._instant(self._step(_naive(instant + offset), "get_next"), offset)
        if self._offset(due) == offset:
            return due
        change = self._change(instant, due)
        return self._next_in_real_time(change - _TICK, self._offset(change))

    def _last_in_real_time(self, instant: datetime) -> datetime:
        offset = self._offset(instant)
        due = self._instant(self._step(_naive(instant + offset + _TICK), "get_prev"), offset)
        if self._offset(due) == offset:
            return due
        return self._last_in_real_time(self._change(due, instant) - _TICK)

    def _step(self, wall: datetime, way: str) -> datetime:
        try:
            found: datetime = getattr(self._croniter, way)(datetime, start_time=wall)
        except ValueError as error:
            raise InvalidOption(f"cron = {self.expression!r} is never due: {error}") from error
        return found

    def _walls(self, instant: datetime) -> list[datetime]:
        """Return what clocks show that have been changed, and what they would show otherwise."""
        return [_naive(instant + self._offset(then)) for then in (instant - _JUMP, instant)]

    def _on_the_clock(self, wall: datetime) -> datetime:
        return wall.replace(tzinfo=self._zone).astimezone(UTC)

    def _offset(self, instant: datetime) -> timedelta:
        return instant.astimezone(self._zone).utcoffset() or timedelta()

    def _change(self, start: datetime, end: datetime) -> datetime:
        """Return an instant from which on the clocks between `start` and `end` are others than at the start."""
        before = self._offset(start)
        while end - start > _TICK:
            middle = start + (end - start) / 2
            start, end = (middle, end) if self._offset(middle) == before else (start, middle)
        return end

    @staticmethod
    def _instant(wall: datetime, offset: timedelta) -> datetime:
        return (wall - offset).replace(tzinfo=UTC)


def _naive(instant: datetime) -> datetime:
    return instant.astimezone(UTC).replace(tzinfo=None)
