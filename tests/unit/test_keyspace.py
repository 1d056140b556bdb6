from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echomq_django.bus import ids
from echomq_django.bus.keyspace import Keyspace, check_holder, check_lane
from echomq_django.exceptions import InvalidJobId, InvalidName

KEYS = Keyspace("emq", "emails")
printable = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40).filter(str.isprintable)


def test_all_keys_of_a_queue_share_one_hash_tag():
    job_id = ids.mint("emails")
    assert [
        KEYS.pending,
        KEYS.lanes,
        KEYS.active,
        KEYS.scheduled,
        KEYS.suspect,
        KEYS.isolated,
        KEYS.dead,
        KEYS.meta,
        KEYS.events,
        KEYS.wake,
        KEYS.lane("user-1"),
        KEYS.job(job_id),
        KEYS.hand("host.1"),
    ] == [
        "emq:{emails}:pending",
        "emq:{emails}:lanes",
        "emq:{emails}:active",
        "emq:{emails}:scheduled",
        "emq:{emails}:suspect",
        "emq:{emails}:isolated",
        "emq:{emails}:dead",
        "emq:{emails}:meta",
        "emq:{emails}:events",
        "emq:{emails}:wake",
        "emq:{emails}:g:user-1:pending",
        f"emq:{{emails}}:job:{job_id}",
        "emq:{emails}:hand:host.1",
    ]


def test_jobs_without_a_lane_are_the_queue_s_own():
    assert KEYS.lane("") == KEYS.pending


@pytest.mark.parametrize("queue", ["", "a b", "a{b", "a}b", "a:b", "é", "a\n", "*", "x" * 65])
def test_a_queue_name_that_could_meet_another_is_refused(queue):
    with pytest.raises(InvalidName, match="queue name"):
        Keyspace("emq", queue)


@pytest.mark.parametrize("prefix", ["", "a b", "a{b", "é", "a\n", "a*", "x" * 65])
def test_a_prefix_that_could_meet_another_is_refused(prefix):
    with pytest.raises(InvalidName, match="prefix"):
        Keyspace(prefix, "emails")


@pytest.mark.parametrize("lane", ["a\0b", "a\nb", "\ud800", "x" * 129, "é" * 65, None, 5])
def test_a_lane_that_no_row_can_hold_is_refused(lane):
    with pytest.raises(InvalidName, match="lane"):
        check_lane(lane)


@pytest.mark.parametrize("lane", ["", "x" * 128, "é" * 64, "user 1", "a:b:pending", "{x}", "*", "\N{PILE OF POO}"])
def test_printable_text_is_a_lane(lane):
    assert check_lane(lane) == lane


@pytest.mark.parametrize("holder", ["", "a b", "é", "a\n", "x" * 41])
def test_a_holder_that_no_row_can_hold_is_refused(holder):
    with pytest.raises(InvalidName, match="holder"):
        check_holder(holder)


def test_no_key_is_built_from_what_is_no_job_id():
    with pytest.raises(InvalidJobId):
        KEYS.job("1:pending")


@given(st.sets(printable, min_size=2, max_size=5))
def test_names_that_differ_have_keys_that_differ(names):
    fixed = [KEYS.pending, KEYS.lanes, KEYS.active, KEYS.scheduled, KEYS.suspect, KEYS.dead, KEYS.meta, KEYS.wake]
    holders = [name for name in names if name.isascii() and " " not in name]
    keys = [*fixed, *map(KEYS.lane, names), *map(KEYS.hand, holders), KEYS.job(ids.mint("emails"))]
    assert len(set(keys)) == len(keys)


def test_queues_of_other_names_or_prefixes_never_meet():
    bases = [Keyspace(*one).base for one in [("a", "b"), ("a:", "b"), ("a:b", "b"), ("a", "b.c"), ("a", "b-")]]
    assert not [(one, other) for one, other in permutations(bases, 2) if one.startswith(other)]
