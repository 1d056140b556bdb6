"""Instants of the server, which counts milliseconds, as the datetimes that this project's databases hold."""

from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.utils import timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_MS = 253_370_764_800_000  # the last year that a datetime knows begins


def from_ms(ms: int) -> datetime:
    """Return the instant `ms` after the epoch, naive in a project without time zones; impossible ones are clamped."""
    instant = _EPOCH + timedelta(milliseconds=min(max(ms, 0), _LATEST_MS))
    return instant if settings.USE_TZ else timezone.make_naive(instant)


def to_ms(instant: datetime) -> int:
    """Return the milliseconds since the epoch."""
    aware = timezone.make_aware(instant) if timezone.is_naive(instant) else instant
    return (aware - _EPOCH) // timedelta(milliseconds=1)
