"""Which slot of a row of django-q2 is due: a slot is an instant, and of several that are due only the last is fired.

Where django-q2's own arithmetic loses a time zone or a slot, the rules here are others: see `echomq_django.cron`.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from django.conf import settings
from django.utils.timezone import get_default_timezone, is_aware

from echomq_django.conf import did_you_mean
from echomq_django.cron import Cron
from echomq_django.exceptions import InvalidOption


class Slot(NamedTuple):
    """The slot that is due and when the next one is; `late` says that slots before it were missed."""

    due: datetime
    following: datetime | None
    late: bool = False


def slot_of(row: Any, zone: ZoneInfo, asked: datetime, now: datetime) -> Slot:
    """Return the last slot of a row that is due; `asked` is its next run as the row has it."""
    if row.schedule_type == row.ONCE:
        return Slot(asked, None)
    if row.schedule_type == row.CRON:
        cron, latest = Cron(row.cron, zone), max(asked, now)
        due = cron.before(latest)
        return Slot(due, cron.after(latest), asked < due and cron.before(asked) < due)
    if row.schedule_type in (row.MINUTES, row.HOURLY):
        period = timedelta(hours=1) if row.schedule_type == row.HOURLY else timedelta(minutes=row.minutes or 1)
        due = asked + max(0, (now - asked) // period) * period
        return Slot(due, due + period, asked < due)
    due, following = asked, _after(row, asked, now)
    while following <= now:
        due, following = following, _after(row, following, now)
    return Slot(due, following, asked < due)


def instant(value: datetime, now: datetime) -> datetime:
    """Return a moment as django-q2 has it in UTC.

    Without time zones it may be one that the clocks show twice: the second, if that has come.
    """
    if is_aware(value):
        return value.astimezone(UTC)
    first, second = (value.replace(tzinfo=get_default_timezone(), fold=fold).astimezone(UTC) for fold in (0, 1))
    return second if first < second <= now else first


def stored(moment: datetime) -> datetime:
    """Return a moment as the database of this project takes it."""
    return moment if settings.USE_TZ else moment.astimezone(get_default_timezone()).replace(tzinfo=None)


def zone_of(name: str | None) -> ZoneInfo:
    """Return the zone `name`, or the one that django-q2 uses; raises `InvalidOption` if there is none of this name."""
    key = name or getattr(settings, "Q_CLUSTER", {}).get("time_zone") or settings.TIME_ZONE
    try:
        return ZoneInfo(key)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
        hint = did_you_mean(key, available_timezones())
        raise InvalidOption(f"timezone = {key!r} is no time zone{hint}") from error


def _after(row: Any, moment: datetime, now: datetime) -> datetime:
    return instant(row.calculate_next_run(stored(moment)), now)
