"""The arguments of a job as JSON, which must come back equal and of the same types."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import Any
from uuid import UUID

from django.db.models import Model, QuerySet
from django.utils.functional import Promise

from echomq_django.exceptions import InvalidArguments, PayloadTooLarge

MAX_BYTES = 512 * 1024
MAX_DEPTH = 100
_MAX_INTEGER_BITS = 14_000  # Python refuses to read more than 4,300 digits

_to_json = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")).encode
_from_json = json.JSONDecoder().raw_decode

# The first that fits; subclasses stand before their bases.
_INSTEAD: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (Enum, "pass its .value"),
    (Promise, "pass str(...) of it"),
    (str, "it is a subclass of str: pass it + ''"),
    (tuple, "pass list(...) of it"),
    ((set, frozenset), "pass sorted(...) of it"),
    ((bytes, bytearray, memoryview), "decode it, or pass it as base64"),
    ((Decimal, UUID), "pass str(...) of it"),
    ((date, time), "pass its .isoformat()"),
    (timedelta, "pass its .total_seconds()"),
    (Model, "pass its primary key"),
    (QuerySet, "pass a list of primary keys"),
    (dict, "pass dict(...) of it"),
    (list, "pass list(...) of it"),
    ((int, float), "pass int(...) or float(...) of it"),
)


class _Refused(Exception):
    """A value that can't travel; its path grows while the stack unwinds."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        self.path = ""


def encode(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """Return compact JSON of `[args, kwargs]`.

    Raises `InvalidArguments`, with the path of the culprit, for what would come back as something else, and
    `PayloadTooLarge` beyond 512 KiB.
    """
    args, kwargs = list(args), dict(kwargs)
    name = "args"
    try:
        _check(args, 0)
        name = "kwargs"
        _check(kwargs, 0)
    except _Refused as refused:
        raise InvalidArguments(f"{name}{refused.path} {refused.why}") from None
    payload = _to_json([args, kwargs]).encode()
    if len(payload) > MAX_BYTES:
        raise too_large(len(payload))
    return payload


def decode(payload: bytes) -> tuple[list[Any], dict[str, Any]]:
    """Return what `encode` was given."""
    text = payload.decode(errors="surrogatepass")
    (args, kwargs), end = _from_json(text)
    if end != len(text):
        raise ValueError(f"behind the arguments stands {text[end : end + 20]!r}")
    return args, kwargs


def too_large(size: int) -> PayloadTooLarge:
    """Return the error for arguments of `size` bytes."""
    return PayloadTooLarge(
        f"the arguments take {size:,} bytes as JSON, and {MAX_BYTES:,} is the cap: store the data and pass its address"
    )


def _check(value: Any, depth: int) -> None:
    kind = type(value)
    if kind is str:
        if not value.isascii() or len(value) > MAX_BYTES:
            _check_text(value)
    elif kind is int:
        if value.bit_length() > _MAX_INTEGER_BITS:
            raise _Refused("is an integer too long to be read back: pass hex(...) of it")
    elif kind is list:
        _check_items(enumerate(value), depth + 1)
    elif kind is dict:
        for key in value:
            if type(key) is not str or not key.isascii() or len(key) > MAX_BYTES:
                _check_key(key)
        _check_items(value.items(), depth + 1)
    elif kind is float:
        if not isfinite(value):
            raise _Refused(f"is {value}, which JSON does not have: pass None")
    elif value is not None and kind is not bool:
        raise _Refused(f"is of the type {kind.__qualname__}, which JSON would not bring back: {_instead(value)}")


def _check_items(items: Iterable[tuple[str | int, Any]], depth: int) -> None:
    key: str | int = 0
    try:
        for key, item in items:  # noqa: B007 the handler names it
            if depth > MAX_DEPTH:
                raise _Refused(f"is nested deeper than {MAX_DEPTH} levels, or contains itself")
            _check(item, depth)
    except _Refused as refused:
        refused.path = f"[{json.dumps(key)}]{refused.path}"
        raise


def _check_key(key: Any) -> None:
    if type(key) is not str:
        raise _Refused(f"has the key {key!r}, and JSON has only strings as keys: pass str(...) of it")
    _check_text(key)


def _check_text(value: str) -> None:
    if len(value) > MAX_BYTES:
        raise too_large(len(value))
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _Refused(f"holds a lone surrogate at character {error.start}, which is no text") from None


def _instead(value: Any) -> str:
    for kinds, advice in _INSTEAD:
        if isinstance(value, kinds):
            return advice
    return "pass only str, int, float, bool, None, list and dict"
