"""Copies of what jobs carry that any database takes and people can read: escaped, shortened, and saying so."""

import json
from math import isfinite
from typing import Any

MESSAGE_LIMIT = 4_000
TRACEBACK_LIMIT = 40_000
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


def arguments(payload: bytes) -> tuple[Any, Any]:
    """Return escaped copies of the args and kwargs in `payload`; (None, None) if it holds none."""
    try:
        args, kwargs = json.loads(payload)
        return json_safe(args), json_safe(kwargs)
    except (ValueError, TypeError, RecursionError):
        return None, None


def json_safe(value: Any) -> Any:
    """Return a copy of a JSON value that every database takes: text escaped, NaN and infinities as text."""
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {escaped(key): json_safe(item) for key, item in value.items()}
    return [json_safe(item) for item in value] if isinstance(value, list) else value
