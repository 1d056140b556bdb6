"""What the database is given is text that it takes, and instants that it can hold."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pytest_django import Settings

from echomq_django.floor.display import REDACTED, arguments, escaped, job_options, json_safe, shortened
from echomq_django.floor.instants import from_ms, to_ms


def test_text_that_a_database_takes_stays_as_it_is() -> None:
    assert escaped("naïve \U0001f600 \t\n <b>") == "naïve \U0001f600 \t\n <b>"


def test_nul_and_lone_surrogates_are_spelt_out() -> None:
    assert escaped("a\0b\ud800c\udfff") == "a\\x00b\\ud800c\\udfff"


@pytest.mark.parametrize("length", [0, 99, 100])
def test_text_within_the_limit_is_whole(length: int) -> None:
    assert shortened("x" * length, 100) == "x" * length


@pytest.mark.parametrize("length", [101, 5_000_000])
def test_longer_text_keeps_both_ends_and_says_how_much_is_missing(length: int) -> None:
    text = shortened("begin" + "\0" * length + "end", 300)

    assert len(text) <= 300
    assert text.startswith("begin")
    assert text.endswith("end")
    assert f"{4 * length + 8 - 250:,} characters left out" in text


def test_copies_of_arguments_are_escaped_all_the_way_down() -> None:
    assert json_safe({"\0": ["\ud800", {"a": float("nan")}, 10**30, None, True, 1.5]}) == {
        "\\x00": ["\\ud800", {"a": "nan"}, 10**30, None, True, 1.5]
    }


@pytest.mark.parametrize("payload", [b"", b"{}", b"[1]", b"[[], {}, 1]", b"\xff", b"[" * 100_000])
def test_what_holds_no_arguments_has_no_copies(payload: bytes) -> None:
    assert arguments(payload) == (None, None)


def test_copies_are_without_what_is_to_be_redacted_by_position_and_by_name() -> None:
    payload, options = b'[["ana", "s3cret"], {"token": "t0p", "0": "kept"}]', {"redact": [1, 7, "token", "password"]}
    assert arguments(payload, options) == (["ana", REDACTED], {"token": REDACTED, "0": "kept"})


@pytest.mark.parametrize("options", [None, {}, [], {"redact": None}, {"redact": 5}])
def test_options_that_tell_nothing_to_redact_leave_the_copies_as_they_are(options: Any) -> None:
    assert arguments(b'[["a"], {}]', options) == (["a"], {})


def test_the_steps_behind_a_job_hide_their_own_arguments() -> None:
    step = {"task": "app.t", "args": ["a", "s3cret"], "kwargs": {}, "options": {"x": 1}, "redact": [1]}
    shown = job_options({"max_failures": 2, "chain": [step, {"task": "app.u", "args": ["b"]}, "no step"]})
    assert shown == {
        "max_failures": 2,
        "chain": [{**step, "args": ["a", REDACTED]}, {"task": "app.u", "args": ["b"]}, "no step"],
    }


@pytest.mark.parametrize("use_tz", [True, False])
@pytest.mark.parametrize("ms", [0, 1_795_983_822_911, 253_000_000_000_123])
def test_instants_come_back_to_the_millisecond(settings: Settings, use_tz: bool, ms: int) -> None:
    settings.USE_TZ = use_tz
    settings.TIME_ZONE = "Europe/Berlin"

    assert (from_ms(ms).tzinfo is not None) is use_tz
    assert to_ms(from_ms(ms)) == ms


def test_an_instant_that_no_calendar_has_is_clamped() -> None:
    assert from_ms(-5) == datetime(1970, 1, 1, tzinfo=UTC)
    assert from_ms(1 << 62).year == 9999
