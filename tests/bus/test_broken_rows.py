"""Rows that are missing, damaged, of another type or of a newer release hold nobody up and leave no ghost."""

from collections.abc import Callable
from struct import pack

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from echomq_django.bus import jobs, reads
from echomq_django.bus.dead import forget, unmirrored
from echomq_django.bus.jobs import Verdict
from echomq_django.bus.queue import Queue, count
from echomq_django.bus.recovery import abandon, recover
from echomq_django.bus.row import State
from echomq_django.bus.schedule import promote
from tests.bus.scenes import (
    SOON,
    W1,
    active,
    completion,
    dead,
    death,
    enqueued,
    new_job,
    nonce,
    release,
    retry,
    stay_awake,
    stored,
    suspects,
)
from tests.bus.view import changes, view

pytestmark = pytest.mark.broken_keyspace

DONE = pack("<BcddffH", 129, b"c", 1.0, 1.0, 1.0, 1.0, 1) + b"app.tasks.send\0host-1.1\x001"
NEWER = b"\x02 a layout that only the next release knows, with a few more bytes"
PLACES: dict[str, Callable[[Queue], str]] = {
    "pending": lambda queue: enqueued(queue, priority=1)[0],
    "g:a:pending": lambda queue: enqueued(queue, priority=1, lane="a")[0],
    "g:a:isolated": lambda queue: enqueued(queue, priority=1, lane="a", extras={"isolate": True})[0],
    "scheduled": lambda queue: enqueued(queue, priority=1, delay_ms=SOON)[0],
    "active": lambda queue: active(queue)[0].job_id,
    "suspect": lambda queue: suspects(queue, priority=1)[0].job_id,
    "dead": lambda queue: dead(queue)[0].job_id,
}
each_place = pytest.mark.parametrize(("place", "arrange"), PLACES.items(), ids=PLACES)


NUMBERS = [pack("<d", float(number)) for number in ("nan", "inf", "-inf", "-1", "1e300")] + [b"\xff" * 8]


def damage(queue: Queue, job_id: str, how: str) -> None:
    key = queue.keys.job(job_id)
    raw = queue.client.get(key)
    queue.client.delete(key)
    if how == "of another type":
        queue.client.hset(key, "a", "hash")
    elif how != "missing":
        pieces = {
            "empty": b"",
            "cut off": raw[:15],
            "cut in the body": raw[:40],
            "done": DONE,
            "of a newer release": NEWER,
        }
        queue.client.set(key, pieces[how])


DAMAGED = ["empty", "cut off", "cut in the body", "of another type"]
HOWS = ["missing", *DAMAGED, "done"]


def make_overdue(queue: Queue, key: str) -> None:
    for name, _ in queue.client.zscan_iter(key):
        queue.client.zadd(key, {name: 1})


def pass_by(queue: Queue, place: str) -> None:
    """Let everything that looks at `place` look once."""
    if place == "scheduled":
        make_overdue(queue, queue.keys.scheduled)
        promote(queue)
    elif place == "active":
        make_overdue(queue, queue.keys.active)
        stay_awake(queue)
        recover(queue)
    elif place in ("suspect", "g:a:isolated"):
        jobs.claim_alone(queue, W1, nonce())
    elif place == "dead":
        forget(queue, [(death.job_id, str(death.row.token) if death.row else "") for death in unmirrored(queue)])
    else:
        jobs.claim(queue, W1, nonce(), 10)


@each_place
@pytest.mark.parametrize("how", HOWS)
def test_a_broken_row_is_taken_out_reported_and_holds_nobody_up(queue, place, arrange, how):
    broken, sound = arrange(queue), arrange(queue)
    queue.client.delete(queue.keys.events)
    damage(queue, broken, how)
    before = view(queue)[f"job:{broken}"] if how != "missing" else None
    pass_by(queue, place)
    after = view(queue)
    assert broken not in after.get(place, {}) or place == "dead"
    assert after.get(f"job:{broken}") == (None if place == "dead" and how in DAMAGED else before)
    assert (broken in after.get("dead", {})) is (place != "dead" and how in DAMAGED)
    assert sound not in after.get(place, {})
    if place == "dead":
        assert f"job:{sound}" not in after
    else:
        assert ("lost", broken) in [(event["kind"], event["id"]) for event in after["events"]]


@each_place
@pytest.mark.parametrize("how", DAMAGED)
def test_a_damaged_row_is_kept_for_the_mirror_and_leaves_no_key_when_that_has_it(queue, place, arrange, how):
    broken = arrange(queue)
    damage(queue, broken, how)
    before = reads.raw(queue, broken)
    pass_by(queue, place) if place != "dead" else None
    (death,) = unmirrored(queue)
    assert (death.job_id, death.row) == (broken, None)
    assert death.problem
    assert reads.raw(queue, broken) == before
    assert forget(queue, [(broken, f"unreadable:{death.died_at}")]) == [True]
    assert not {"dead", f"job:{broken}"} & view(queue).keys()


@each_place
def test_a_row_of_a_newer_release_is_left_to_those_that_can_read_it(queue, place, arrange):
    newer, sound = arrange(queue), arrange(queue)
    old = queue.client.get(queue.keys.job(newer))
    damage(queue, newer, "of a newer release")
    for _ in range(3):
        pass_by(queue, place)
    seen = view(queue)
    assert seen[f"job:{newer}"] == NEWER
    assert sound not in seen.get(place, {})
    assert sum(newer in seen.get(one, {}) for one in ("scheduled", "active", "suspect", "dead")) == 1
    # The next release has come.
    queue.client.set(queue.keys.job(newer), old)
    pass_by(queue, "scheduled")
    pass_by(queue, place)
    queue.client.delete(queue.keys.hand(W1)) if place == "active" else None
    assert _is_under_way(queue, newer, place)


def _is_under_way(queue, job_id, place):
    if place == "dead":
        return jobs.read(queue, job_id) is None
    if place == "scheduled":
        return stored(queue, job_id).state is State.PENDING
    if place == "active":
        return stored(queue, job_id).stalled == 1
    return stored(queue, job_id).state is State.ACTIVE


@pytest.mark.parametrize("how", [*HOWS, "of a newer release"])
def test_nobody_can_end_what_can_not_be_read(queue, how):
    (row,) = active(queue)
    damage(queue, row.job_id, how)
    with changes(queue) as changed:
        verdicts = [
            *jobs.complete(queue, W1, [completion(row)]),
            *jobs.retry(queue, W1, [retry(row)]),
            *jobs.release(queue, W1, [release(row)]),
            *jobs.die(queue, W1, [death(row)]),
        ]
        discarded = jobs.discard(queue, row.job_id)
    assert set(verdicts) == {Verdict.MISSING if how == "missing" else Verdict.STALE}
    assert discarded is Verdict.MISSING
    assert changed == {}


@pytest.mark.parametrize("how", [*HOWS, "of a newer release"])
def test_a_lease_without_a_readable_row_is_not_renewed(queue, how):
    broken, sound = active(queue, 2)
    damage(queue, broken.job_id, how)
    assert jobs.extend(queue, W1).keys() == {sound.job_id}
    assert view(queue)[f"hand:{W1}"] == {sound.job_id}


@pytest.mark.parametrize("how", HOWS)
def test_a_dead_holder_with_a_broken_row_costs_its_neighbours_nothing(queue, how):
    broken, sound = active(queue, 2)
    damage(queue, broken.job_id, how)
    assert abandon(queue, W1, [(broken.job_id, broken.token.fence)]).unstarted == [sound.job_id]


def test_a_death_of_a_newer_release_is_neither_read_nor_forgotten_by_this_one(queue):
    newer, sound = dead(queue, 2)
    damage(queue, newer.job_id, "of a newer release")
    with changes(queue) as changed:
        assert [one.job_id for one in unmirrored(queue)] == [sound.job_id]
        assert forget(queue, [(newer.job_id, str(newer.token))]) == [False]
    assert changed == {}


def test_a_mirror_is_told_what_is_wrong_with_a_death(queue):
    gone, cut, other = dead(queue, 3)
    damage(queue, gone.job_id, "missing")
    damage(queue, cut.job_id, "cut in the body")
    damage(queue, other.job_id, "of another type")
    found = {death.job_id: (death.row, death.problem) for death in unmirrored(queue)}
    assert found[gone.job_id] == (None, "its row is missing")
    assert all(row is None and problem for row, problem in found.values())


@pytest.mark.parametrize("place", ["pending", "scheduled", "suspect", "active"])
def test_a_job_that_is_elsewhere_is_not_moved_from_where_its_name_stands(queue, place):
    (row,) = dead(queue) if place == "active" else active(queue)
    queue.client.zadd(queue.keys.base + place, {row.job_id: 1})
    queue.client.zadd(queue.keys.lanes, {"": 1}) if place == "pending" else None
    pass_by(queue, place)
    assert stored(queue, row.job_id) == row
    assert row.job_id not in view(queue).get(place, {})
    assert view(queue)["events"][-1] == {"kind": "lost", "id": row.job_id, "fence": "0", "detail": row.state}


def test_a_job_that_lives_is_no_death_wherever_its_name_stands(queue):
    (row,) = active(queue)
    queue.client.zadd(queue.keys.dead, {row.job_id: 1})
    (death,) = unmirrored(queue)
    assert (death.row, death.problem) == (None, "its row does not say that it died")
    forget(queue, [(row.job_id, str(row.token))])
    assert not queue.client.exists(queue.keys.dead)
    assert stored(queue, row.job_id) == row


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(data=st.data(), place=st.sampled_from(sorted(PLACES)))
def test_no_damage_to_a_row_stops_the_queue(queue, data, place):
    queue.client.flushdb()
    broken, sound = PLACES[place](queue), PLACES[place](queue)
    raw = queue.client.get(queue.keys.job(broken))
    at = data.draw(st.integers(0, len(raw) - 1), label="at")
    new = data.draw(st.binary(max_size=12) | st.sampled_from(NUMBERS), label="new bytes")
    cut = data.draw(st.booleans(), label="cut")
    queue.client.set(queue.keys.job(broken), raw[:at] + new + (b"" if cut else raw[at + len(new) :]))
    for _ in range(2):
        for each in PLACES:
            pass_by(queue, each)
        jobs.extend(queue, W1)
        abandon(queue, W1, [(broken, 1)])
        jobs.discard(queue, broken)
        count(queue)
    assert isinstance(jobs.enqueue(queue, [new_job(queue, job_id=broken)]), list)
    assert sound not in view(queue).get(place, {}) or place in ("pending", "g:a:pending", "g:a:isolated")


@pytest.mark.parametrize("text", [b"{", b"5", b"\0", b'{"\t":1}', b'{"\xff":1}'])
def test_a_job_with_damaged_extras_is_taken_out_and_its_neighbour_runs(queue, text):
    broken, sound = enqueued(queue, extras={"expires": SOON}) + enqueued(queue)
    queue.client.setrange(queue.keys.job(broken), 23, text.ljust(len(f'{{"expires":{SOON}}}')))
    with changes(queue) as changed:
        assert [row.job_id for row in jobs.claim(queue, W1, nonce(), 5)] == [sound]
    assert changed["events"] == [("lost", broken, "corrupt")]
