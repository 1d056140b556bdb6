"""What arguments may be, and how those are refused that would not come back equal."""

import enum
import math
import re
from collections import OrderedDict, defaultdict
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy
from hypothesis import given
from hypothesis import strategies as st

from echomq_django.exceptions import InvalidArguments, PayloadTooLarge
from echomq_django.payload import MAX_BYTES, MAX_DEPTH, decode, encode


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Name(enum.StrEnum):
    ADA = "ada"


class Point(NamedTuple):
    x: int
    y: int


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def with_itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


PLAIN = [
    None,
    True,
    0,
    -(2**63) - 1,
    10**4000,
    0.1,
    -0.0,
    5e-324,
    "",
    "text",
    "emoji 🎉 and ünïcödé",
    "NUL \x00 and controls \x1f \x7f",
    [],
    {},
    [1, [2.5, [None, {"a": [{"b": "c"}]}]]],
    {"": 1, "with \x00": 2, 'with " quote': 3},
    nested(MAX_DEPTH),
]

REFUSED = [
    (UUID(int=1), "UUID", "str(...)"),
    (Decimal("1.10"), "Decimal", "str(...)"),
    (datetime(2026, 1, 1, tzinfo=UTC), "datetime", "isoformat"),
    (datetime(2026, 1, 1), "datetime", "isoformat"),
    (date(2026, 1, 1), "date", "isoformat"),
    (time(12), "time", "isoformat"),
    (timedelta(1), "timedelta", "total_seconds"),
    ({1, 2}, "set", "sorted"),
    (frozenset(), "frozenset", "sorted"),
    ((1, 2), "tuple", "list(...)"),
    (Point(1, 2), "Point", "list(...)"),
    (b"bytes", "bytes", "base64"),
    (bytearray(b"x"), "bytearray", "base64"),
    (Color.RED, "Color", ".value"),
    (Level.LOW, "Level", ".value"),
    (Name.ADA, "Name", ".value"),
    (gettext_lazy("text"), "__proxy__", "str(...)"),
    (mark_safe("text"), "SafeString", "+ ''"),
    (OrderedDict(), "OrderedDict", "dict(...)"),
    (defaultdict(list), "defaultdict", "dict(...)"),
    (1 + 2j, "complex", "pass only"),
    (object(), "object", "pass only"),
    (range(3), "range", "pass only"),
    (User(pk=1), "User", "primary key"),
    (User.objects.none(), "QuerySet", "primary keys"),
    (math.nan, "nan", "None"),
    (math.inf, "inf", "None"),
    (-math.inf, "-inf", "None"),
    (10**5000, "too long", "hex"),
    ("lone \ud800", "lone surrogate at character 5", "text"),
    ({1: "a"}, "the key 1", "str(...)"),
    ({1: "a", "1": "b"}, "the key 1", "str(...)"),
    ({None: "a"}, "the key None", "str(...)"),
    ({"\udfff": 1}, "lone surrogate", "text"),
    (nested(MAX_DEPTH + 1), "deeper", "100"),
    (with_itself(), "contains itself", "100"),
]


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: repr(value)[:30])
def test_plain_data_comes_back_equal_and_of_the_same_type(value: Any) -> None:
    args, kwargs = decode(encode((value,), {"name": value}))

    assert args == [value]
    assert kwargs == {"name": value}
    assert repr(args[0]) == repr(value)


@pytest.mark.parametrize(
    ("value", "what", "advice"), REFUSED, ids=[f"{what}-{n}" for n, (_, what, _) in enumerate(REFUSED)]
)
def test_what_would_change_on_the_way_is_refused_with_advice(value: Any, what: str, advice: str) -> None:
    with pytest.raises(InvalidArguments) as refusal:
        encode((value,), {})

    assert str(refusal.value).startswith("args[0]")
    assert what in str(refusal.value)
    assert advice in str(refusal.value)


@pytest.mark.parametrize(
    ("args", "kwargs", "path"),
    [
        ((1, {"a": [0, 1, (2,)]}), {}, 'args[1]["a"][2]'),
        ((), {"a": [0, 1, {3}]}, 'kwargs["a"][2]'),
        ((), {"deep": {'with " quote': {"\ud800": 1}}}, 'kwargs["deep"]["with \\" quote"]'),
        ((), {"a": {"b": {1: 2}}}, 'kwargs["a"]["b"]'),
        ((), {"\ud800": 1}, "kwargs"),
    ],
)
def test_the_refusal_names_the_path(args: tuple[Any, ...], kwargs: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidArguments, match=f"^{re.escape(path)} "):
        encode(args, kwargs)


def test_the_refusal_can_be_printed_whatever_it_names() -> None:
    with pytest.raises(InvalidArguments) as refusal:
        encode((), {"a": {"\ud800": object()}})

    assert str(refusal.value).encode()


def test_arguments_of_exactly_the_cap_pass() -> None:
    room = MAX_BYTES - len(encode(("",), {}))

    assert len(encode(("x" * room,), {})) == MAX_BYTES


@pytest.mark.parametrize(
    "args",
    [("x" * (MAX_BYTES - 6),), ("é" * (MAX_BYTES // 2),), ([1] * MAX_BYTES,), ("x" * 20_000_000,)],
    ids=["one byte more", "in bytes, not characters", "many small ones", "20 MB"],
)
def test_arguments_over_the_cap_are_refused_with_their_size(args: tuple[Any, ...]) -> None:
    with pytest.raises(PayloadTooLarge, match=r"take \d[\d,]+ bytes as JSON, and 524,288 is the cap"):
        encode(args, {})


def test_the_json_is_compact() -> None:
    assert encode((1, "é"), {"a": [True, None]}) == '[[1,"é"],{"a":[true,null]}]'.encode()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def test_arguments_with_something_behind_them_are_refused() -> None:
    with pytest.raises(ValueError, match=r"behind the arguments stands '\[2\]'"):
        decode(encode((1,), {}) + b"[2]")


@given(st.lists(json_values), st.dictionaries(st.text(), json_values))
def test_any_json_value_comes_back_the_same(args: list[Any], kwargs: dict[str, Any]) -> None:
    assert repr(decode(encode(args, kwargs))) == repr((args, kwargs))
