"""Rows as the server writes them, read in Python. The bytes here are built by hand: they are the format."""

import struct
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echomq_django.bus.row import Done, Failure, Row, State, Token, alias_of, pack_max_stalled, parse

JOB = "JOB" + "0" * 26
LANE, BODY, HOLDER = "Zoë".encode(), b"app.send\0\0\0\0[[],{}]", b"host-1.1"


def is_(*, max_stalled=3, lane=LANE, body=BODY):
    return struct.pack("<BBHIIdB", 1, 107, max_stalled, 30_000, len(body), 1_700_000_000_000.0, len(lane)) + lane + body


def stands(state=b"a", flags=3, order=93 * 2**43 + 1_700_000_000_001):
    return struct.pack("<cBd", state, flags, order)


FENCE, CLAIMED_AT = 1_700_000_000_123_456, 1_700_000_000_123
LIFE = struct.pack("<IHHHdd8s40s", 4, 1, 2, 3, FENCE, CLAIMED_AT, b"\1" * 8, HOLDER.ljust(40))
ERROR = b"failed\0app.Boom\0no \xff paper\0trace\nback"


def test_a_row_before_its_first_claim_is_read():
    assert parse(JOB, is_() + stands(b"p", 0)) == Row(
        job_id=JOB,
        state=State.PENDING,
        lane="Zoë",
        priority=7,
        max_stalled=3,
        lease_ms=30_000,
        enqueued_at=1_700_000_000_000,
        order=93 * 2**43 + 1_700_000_000_001,
        body=BODY,
    )


def test_a_row_with_its_life_and_error_is_read():
    row = parse(JOB, is_() + stands() + LIFE + ERROR)
    assert isinstance(row, Row)
    assert (row.state, row.started, row.via_outbox) == (State.ACTIVE, True, True)
    assert (row.attempts, row.failures, row.stalled, row.deaths) == (4, 1, 2, 3)
    assert (row.token, row.claimed_at) == (Token(FENCE, b"\1" * 8), CLAIMED_AT)
    assert (row.holder, row.ready_at) == ("host-1.1", 1_700_000_000_001)
    assert row.failure == Failure("failed", "app.Boom", "no \N{REPLACEMENT CHARACTER} paper", "trace\nback")


def test_an_error_that_goes_on_says_since_when():
    row = parse(JOB, is_() + stands() + LIFE + ERROR + b"\0001700000000000")
    assert row.failure == replace(Failure.unpack(ERROR), since=1_700_000_000_000)


def test_a_row_without_an_error_has_no_failure():
    row = parse(JOB, is_() + stands() + LIFE)
    assert isinstance(row, Row)
    assert row.failure is None


@pytest.mark.parametrize("bound", [0, 1, 3, 65_534, None])
def test_a_bound_on_stalls_comes_back(bound):
    row = parse(JOB, is_(max_stalled=pack_max_stalled(bound)) + stands())
    assert isinstance(row, Row)
    assert row.max_stalled == bound


@pytest.mark.parametrize("flags", range(8))
def test_flags_are_independent(flags):
    row = parse(JOB, is_() + stands(flags=flags))
    assert isinstance(row, Row)
    assert (row.started, row.via_outbox, row.cancelled) == (bool(flags & 1), bool(flags & 2), bool(flags & 4))


EXTRAS = b'{"expires":5,"unique":{"key":"k","mode":"done"}}'


@pytest.mark.parametrize("behind", [b"", LIFE, LIFE + ERROR])
def test_extras_stand_in_front_of_the_body_behind_their_length(behind):
    body = struct.pack("<H", len(EXTRAS)) + EXTRAS + BODY
    row = parse(JOB, is_(body=body) + stands(flags=8) + behind)
    plain = parse(JOB, is_() + stands(flags=0) + behind)
    assert isinstance(row, Row)
    assert isinstance(plain, Row)
    assert row.extras == {"expires": 5, "unique": {"key": "k", "mode": "done"}}
    assert replace(row, extras={}) == plain


def test_an_alias_names_the_job_that_it_stands_for():
    assert alias_of(b"\x82" + JOB.encode()) == JOB


@pytest.mark.parametrize("raw", [b"", b"\x81c", is_() + stands()])
def test_no_other_row_is_an_alias(raw):
    assert alias_of(raw) is None


def test_what_stays_of_a_finished_job_is_read():
    result = Done.pack_result("app.tasks.send", "host-1.1", b'"a\0b"')
    raw = struct.pack("<BcddffH", 129, b"c", 1e15 + 1, 1.7e12, 5, 4, 4) + result
    assert parse(JOB, raw) == Done(
        job_id=JOB,
        task="app.tasks.send",
        holder="host-1.1",
        value=b'"a\0b"',
        attempts=4,
        fence=10**15 + 1,
        enqueued_at=1_700_000_000_000,
        started_at=1_700_000_000_005,
        finished_at=1_700_000_000_009,
    )


def test_what_stays_of_a_cancelled_job_says_so():
    raw = struct.pack("<BcddffH", 129, b"x", 0, 1.7e12, 5, 0, 0) + Done.pack_result("app.tasks.send", "", b"")
    done = parse(JOB, raw)
    assert isinstance(done, Done)
    assert (done.state, done.holder, done.value) == (State.CANCELLED, "", b"")


@pytest.mark.parametrize(("first", "said"), [(b"", "missing"), (b"\0", "00"), (b"\2", "02"), (b"\xff", "ff")])
def test_another_format_is_refused_by_its_first_byte(first, said):
    with pytest.raises(ValueError, match=f"the row of {JOB} has an unknown format .first byte {said}"):
        parse(JOB, first + bytes(100) if first else first)


@pytest.mark.parametrize(
    "raw",
    [
        b"\1",
        is_(),
        (is_() + stands())[:-1],
        is_()[:30],
        is_() + stands(b"x"),
        is_() + stands(b"\xff"),
        is_() + stands(order=float("nan")),
        is_() + stands(order=float("inf")),
        is_() + stands() + LIFE[:-40] + b"\xff" * 40,
        is_(body=b"") + stands(flags=8),
        is_(body=b"\2\0{]") + stands(flags=8),
        is_(body=b"\xff\xff{}") + stands(flags=8),
        b"\x81",
        b"\x81c" + bytes(26) + b"no nul",
    ],
)
def test_a_damaged_row_is_a_value_error_that_names_the_job(raw):
    with pytest.raises(ValueError, match=f"the row of {JOB} is damaged"):
        parse(JOB, raw)


@given(st.binary(max_size=200).map(lambda tail: b"\1" + tail) | st.binary(max_size=200))
def test_no_bytes_raise_anything_else(raw):
    with suppress(ValueError):
        parse(JOB, raw)


@given(st.builds(Failure, st.just("failed"), *[st.text(st.characters(codec="utf-8"))] * 3, st.integers(0, 2**43)))
def test_a_failure_comes_back_with_each_nul_written_out(failure):
    texts = [text.replace("\0", "\\x00") for text in (failure.error_class, failure.message, failure.traceback)]
    assert Failure.unpack(failure.pack()) == replace(Failure("failed", *texts), since=failure.since)


@given(st.text())
def test_a_lone_surrogate_in_an_error_is_written_out(text):
    assert Failure.unpack(Failure("failed", "E", text, "trace").pack()).traceback == "trace"


@pytest.mark.parametrize(
    ("raw", "parts"), [(b"", [""]), (b"a", ["a"]), (b"a\0b", ["a", "b"]), (b"a\0b\0c\0d\0e", ["a", "b", "c", "d\0e"])]
)
def test_a_failure_with_parts_that_are_not_there_has_empty_ones(raw, parts):
    assert Failure.unpack(raw) == Failure(*parts)


def test_a_token_is_shown_as_fence_and_nonce():
    assert str(Token(17, b"\0\x0f" + b"\xff" * 6)) == "17:000fffffffffffff"
