"""How values look on the screens; whatever a job carries arrives there escaped."""

import json
from datetime import datetime
from typing import Any

from django.utils import formats, timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from echomq_django.floor.display import hidden_in, job_options, shortened

_BLOCK_LIMIT = 65_536


def moment(instant: datetime | None) -> str:
    """Return an instant in the reader's language and time zone, as text."""
    if instant is None:
        return ""
    return str(formats.localize(timezone.localtime(instant) if timezone.is_aware(instant) else instant))


def instant(value: datetime | None) -> str:
    """Return the same as an element that also tells it exactly."""
    if value is None:
        return ""
    exact = value.isoformat(timespec="milliseconds")
    return format_html('<time datetime="{}" title="{}">{}</time>', exact, exact, moment(value))


def block(text: str) -> SafeString | str:
    """Return text as written, line by line; a long one is shortened and says so."""
    return format_html('<pre class="emq-block">{}</pre>', shortened(text, _BLOCK_LIMIT)) if text else ""


def arguments(args: Any, kwargs: Any, payload: bytes, options: Any) -> SafeString | str:
    """Return a job's arguments, or the bytes that should have held them, unless some of them are not to be seen."""
    if args is None and hidden_in(options):
        return str(_("These arguments can't be read, and some of them are not to be shown."))
    if args is None:
        return block(_("These arguments can't be read:") + f"\n{payload!r}")
    return block(json.dumps({"args": args, "kwargs": kwargs}, indent=2, ensure_ascii=False))


def options(value: Any) -> SafeString | str:
    """Return a job's options, without what the steps behind it hide."""
    return block(json.dumps(job_options(value), indent=2, ensure_ascii=False)) if value else ""


def duration(ms: int) -> str:
    """Return a time span in its two largest units."""
    seconds = abs(ms) // 1000
    if seconds < 60:
        return _("%(seconds)d s") % {"seconds": seconds}
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return _("%(minutes)d min %(seconds)d s") % {"minutes": minutes, "seconds": seconds}
    hours, minutes = divmod(minutes, 60)
    return _("%(hours)d h %(minutes)d min") % {"hours": hours, "minutes": minutes}
