"""How much of a queue, or of one of its lanes, may run: pauses, concurrency, rates and weights."""

import json
import re
import time
from dataclasses import dataclass
from typing import Any, cast

from echomq_django.bus.keyspace import check_lane
from echomq_django.bus.queue import Queue, server_errors
from echomq_django.bus.scripts import Script
from echomq_django.exceptions import InvalidOption

_SET, _PAUSE, _RESUME = Script("limits/set"), Script("limits/pause"), Script("limits/resume")
_RATE = re.compile(r"([1-9]\d*)/(s|m|h|[1-9]\d*s)", re.ASCII)
_UNITS = {"s": 1, "m": 60, "h": 3600}
_MOST, _HEAVIEST = 1_000_000, 100  # others wait for a whole turn of a heavy lane


@dataclass(frozen=True, slots=True)
class Limits:
    """What holds for a lane, or for the whole queue. None means without a limit.

    `rate` is text such as `10/s`, `100/m`, `5/h` or `3/20s`; `paused` who paused it, when and why.
    """

    concurrency: int | None = None
    rate: str | None = None
    weight: int = 1
    paused: dict[str, Any] | None = None


def set(
    queue: Queue, *, lane: str | None = None, concurrency: int | None = None, rate: str | None = None, weight: int = 1
) -> None:
    """Set all limits of `lane`, or with None of the whole queue; what is not given has no limit.

    Raises `InvalidOption`. A queue has no weight.
    """
    keys = queue.keys
    values = {
        "concurrency": _checked("concurrency", concurrency) if concurrency is not None else "",
        "rate": _per_ms(rate) if rate is not None else "",
        "weight": _checked("weight", weight, _HEAVIEST) if weight != 1 else "",
    }
    fields = _fields(lane)
    args = [value for name, field in fields.items() for value in (field, values[name])]
    args += [fields["rate"].replace("rate", "bucket", 1), ""]  # a new rate starts with a full bucket
    names = [keys.lanes, keys.held, keys.limits, keys.meta, keys.wake]
    queue.run(_SET, names, [keys.base, lane or "", *args])


def pause(queue: Queue, *, lane: str | None = None, by: str = "", why: str = "") -> None:
    """Let nothing more of the queue, or of one lane, start. What runs goes on; recovery and promotion do too."""
    keys = queue.keys
    reason = json.dumps({"by": by, "why": why, "at": round(time.time())})
    names = [keys.lanes, keys.held, keys.limits, keys.meta, keys.events]
    queue.run(_PAUSE, names, [int(lane is None), check_lane(lane or ""), reason])


def resume(queue: Queue, *, lane: str | None = None) -> bool:
    """Let the queue, or one lane, start jobs again; False if it was not paused."""
    keys = queue.keys
    names = [keys.pending, keys.lanes, keys.held, keys.limits, keys.meta, keys.wake, keys.events]
    return bool(queue.run(_RESUME, names, [keys.base, int(lane is None), check_lane(lane or "")]))


def read(queue: Queue, *, lane: str | None = None) -> Limits:
    """Return what holds for `lane`, or with None for the whole queue."""
    fields = _fields(lane)
    with server_errors("reading limits"):
        found = cast("list[bytes | None]", queue.client.hmget(queue.keys.limits, list(fields.values())))
        paused = (
            queue.client.hget(queue.keys.meta, "paused")
            if lane is None
            else queue.client.hget(queue.keys.limits, f"paused:{lane}")
        )
    concurrency, rate, weight = (value.decode() if value else None for value in found)
    return Limits(
        concurrency=int(concurrency) if concurrency else None,
        rate=_readable(rate) if rate else None,
        weight=int(weight or 1),
        paused=json.loads(cast(bytes, paused)) if paused else None,
    )


def _fields(lane: str | None) -> dict[str, str]:
    if lane is None:
        return {"concurrency": "concurrency", "rate": "rate:", "weight": "weight"}
    check_lane(lane)
    return {"concurrency": f"concurrency:{lane}", "rate": f"rate:lane:{lane}", "weight": f"weight:{lane}"}


def _checked(name: str, value: Any, most: int = _MOST) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise InvalidOption(f"{name} = {value!r}: must be an integer from 1 to {most:,}")
    return value


def _per_ms(rate: str) -> str:
    match = _RATE.fullmatch(rate) if isinstance(rate, str) else None
    if not match or int(match[1]) > _MOST:
        raise InvalidOption(f"rate = {rate!r}: write how many in which time, such as '10/s', '100/m', '5/h' or '3/20s'")
    seconds = _UNITS.get(match[2]) or int(match[2][:-1])
    return f"{match[1]}/{seconds * 1000}"


def _readable(rate: str) -> str:
    count, ms = rate.split("/")
    units = {1000: "s", 60_000: "m", 3_600_000: "h"}
    return f"{count}/{units.get(int(ms), f'{int(ms) // 1000}s')}"
