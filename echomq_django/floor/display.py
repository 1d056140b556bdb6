"""Copies of what jobs carry that any database takes and people can read: escaped, shortened, and saying so."""

import json
from math import isfinite
from typing import Any

MESSAGE_LIMIT = 4_000
TRACEBACK_LIMIT = 40_000
REDACTED = "[redacted]"
_NOTE_ROOM = 50


def escaped(text: str) -> str:
    """Return `text` with NUL and lone surrogates spelt out, which PostgreSQL refuses."""
    return text.encode(errors="backslashreplace").decode().replace("\0", "\\x00")


def shortened(text: str, limit: int) -> str:
    """Return `text` escaped and within `limit` characters: beginning and end stay, a note tells what is missing."""
    text = escaped(text)
    if len(text) <= limit:
        return text
    half = (limit - _NOTE_ROOM) // 2
    return f"{text[:half]} … {len(text) - 2 * half:,} characters left out … {text[-half:]}"


def arguments(payload: bytes, options: Any = None) -> tuple[Any, Any]:
    """Return escaped copies of the args and kwargs in `payload`, without what the job's `options` tell to redact.

    (None, None) if it holds none.
    """
    hidden = hidden_in(options)
    try:
        args, kwargs = json.loads(payload)
        return json_safe(_without(args, hidden)), json_safe(_without(kwargs, hidden))
    except (ValueError, TypeError, RecursionError):
        return None, None


def hidden_in(options: Any) -> list[int | str]:
    """Return the positions and names of arguments that nobody is to see, as a job or a step carries them."""
    places = options.get("redact") if isinstance(options, dict) else None
    return places if isinstance(places, list) else []


def job_options(options: Any) -> Any:
    """Return the options of a job without what its steps that follow have to hide."""
    chain = options.get("chain") if isinstance(options, dict) else None
    return {**options, "chain": [_step(one) for one in chain]} if isinstance(chain, list) else options


def _step(step: Any) -> Any:
    hidden = hidden_in(step)
    return {**step, **{name: _without(step.get(name), hidden) for name in ("args", "kwargs")}} if hidden else step


def _without(value: Any, hidden: list[int | str]) -> Any:
    if isinstance(value, list):
        return [REDACTED if index in hidden else item for index, item in enumerate(value)]
    if isinstance(value, dict):
        return {name: REDACTED if name in hidden else item for name, item in value.items()}
    return value


def json_safe(value: Any) -> Any:
    """Return a copy of a JSON value that every database takes: text escaped, NaN and infinities as text."""
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {escaped(key): json_safe(item) for key, item in value.items()}
    return [json_safe(item) for item in value] if isinstance(value, list) else value
