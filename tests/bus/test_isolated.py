"""Isolated jobs wait beside their lanes, whichever way they come, and are claimed one at a time to be run alone."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from echomq_django.bus import dead, groups, jobs, limits
from echomq_django.bus.jobs import Entry, Extras, NewJob, claim_alone
from echomq_django.bus.queue import Queue, count
from echomq_django.bus.recovery import abandon, recover
from echomq_django.bus.row import Row, State
from echomq_django.bus.schedule import fire, promote
from tests.bus import scenes
from tests.bus.scenes import (
    LEASE,
    SOON,
    W1,
    W2,
    active,
    completion,
    enqueued,
    expire,
    lasting,
    leased,
    make_due,
    new_job,
    nonce,
    stored,
    suspects,
    tick,
    unique,
)
from tests.bus.view import changes, view

ALONE = Extras(isolate=True)


def isolated(queue: Queue, number: int = 1, **options: object) -> list[str]:
    return enqueued(queue, number, **{"extras": ALONE} | options)


def running(queue: Queue, **options: object) -> Row:
    """An isolated job in the hand of W1."""
    (job_id,) = isolated(queue, **options)
    row = claim_alone(queue, W1, nonce())
    assert isinstance(row, Row)
    assert row.job_id == job_id
    return row


def fired(queue: Queue) -> str:
    job = new_job(queue, extras=ALONE)
    assert fire(queue, "nightly", "2026-01-01T00:00", job)
    return job.job_id


def due(queue: Queue, job_id: str) -> str:
    make_due(queue, job_id)
    assert promote(queue).count == 1
    return job_id


def ended(queue: Queue, end: Callable[..., object], told: Callable[..., object]) -> str:
    row = running(queue)
    end(queue, W1, [told(row)])
    return row.job_id


def lost(queue: Queue) -> str:
    row = running(queue)
    expire(queue, row)
    assert recover(queue).stalled == [row.job_id]
    return row.job_id


def abandoned(queue: Queue, *, started: bool) -> str:
    row = running(queue)
    abandon(queue, W1, [(row.job_id, row.token.fence)] if started else [])
    return row.job_id


def requeued(queue: Queue) -> str:
    row = running(queue)
    jobs.die(queue, W1, [scenes.death(row)])
    row = stored(queue, row.job_id)
    assert dead.requeue(queue, scenes.revival(row, extras=lasting(row)))
    return row.job_id


def following(queue: Queue) -> str:
    (row,), job = active(queue), new_job(queue, extras=ALONE)
    jobs.complete(queue, W1, [completion(row)._replace(parcel=job.parcel(queue.name))])
    return job.job_id


def from_another_queue(queue: Queue) -> str:
    other, job = Queue(queue.client, queue.keys.prefix, "reports"), new_job(queue, extras=ALONE)
    (row,) = active(other)
    jobs.complete(other, W1, [completion(row)._replace(parcel=job.parcel(queue.name))])
    (errand,) = groups.errands(other)
    assert groups.run_errand(other, errand, queue)
    return job.job_id


def after_a_group(queue: Queue) -> str:
    group = scenes.a_group(queue, 1)
    extras = Extras(after={"group": group["id"], "size": 1, "far": False}, isolate=True)
    enqueued(queue, job_id=group["after"], extras=extras)
    (row,) = active(queue, extras={"group": group})
    jobs.complete(queue, W1, [completion(row)])
    assert promote(queue).count == 1
    return group["after"]


def debounced(queue: Queue, *, before: Extras, after: Extras, **options: object) -> str:
    winner, loser = (new_job(queue, extras=unique("debounce") | how, **options) for how in (before, after))
    assert jobs.enqueue(queue, [winner]) == [Entry.ADDED]
    assert jobs.enqueue(queue, [replace(loser, delay_ms=0)]) == [Entry.MERGED]
    return winner.job_id


WAYS: dict[str, Callable[[Queue], str]] = {
    "enqueued": lambda queue: isolated(queue)[0],
    "fired": fired,
    "delayed": lambda queue: due(queue, isolated(queue, delay_ms=SOON)[0]),
    "retried": lambda queue: due(queue, ended(queue, jobs.retry, scenes.retry)),
    "released": lambda queue: ended(queue, jobs.release, scenes.release),
    "released later": lambda queue: due(queue, ended(queue, jobs.release, lambda row: scenes.release(row, SOON))),
    "recovered": lost,
    "abandoned": lambda queue: abandoned(queue, started=True),
    "abandoned before its start": lambda queue: abandoned(queue, started=False),
    "requeued": requeued,
    "next in a chain": following,
    "next in a chain, from another queue": from_another_queue,
    "after a group": after_a_group,
    "debounced": lambda queue: debounced(queue, before=ALONE, after=ALONE),
    "debounced when delayed": lambda queue: debounced(queue, before=ALONE, after=ALONE, delay_ms=SOON),
    "isolated from a debounce on": lambda queue: debounced(queue, before=Extras(), after=ALONE),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_isolated_job_waits_beside_its_lane_whichever_way_it_comes(
    queue: Queue, way: Callable[[Queue], str]
) -> None:
    job_id = way(queue)

    row, seen = stored(queue, job_id), view(queue)
    assert (row.state, row.extras["isolate"]) == (State.PENDING, True)
    assert seen["g::isolated"] == {job_id: row.order}
    assert seen["isolated"].keys() == {""}
    assert not {"pending", "lanes", "held"} & seen.keys()
    assert queue.client.llen(queue.keys.wake) == 1
    assert promote(queue).alone
    assert (count(queue).pending, count(queue).suspect, count(queue).lanes) == (1, 0, 1)
    assert jobs.claim(queue, W2, nonce(), 5) == []
    assert claim_alone(queue, W2, nonce()).job_id == job_id


def test_a_job_that_is_isolated_no_more_goes_back_to_its_lane(queue: Queue) -> None:
    job_id = debounced(queue, before=ALONE, after=Extras())

    assert [row.job_id for row in jobs.claim(queue, W1, nonce(), 5)] == [job_id]
    assert not {"isolated", "g::isolated"} & view(queue).keys()


def test_a_job_that_is_not_isolated_touches_nothing_of_it(queue: Queue) -> None:
    active(queue, 3)
    enqueued(queue, 2, lane="a", delay_ms=SOON)
    assert not any("isolated" in name for name in view(queue))


def test_it_is_leased_as_a_job_that_has_started(queue: Queue) -> None:
    (job_id,) = isolated(queue, lane="a")
    waiting, mine = stored(queue, job_id), nonce()

    with changes(queue) as changed:
        row = claim_alone(queue, W1, mine)

    assert (row, row.attempts) == (leased(waiting, row, mine), 1)
    assert changed == {
        "isolated": None,
        "g:a:isolated": None,
        "active": {job_id: row.claimed_at + LEASE},
        f"hand:{W1}": {job_id},
        f"job:{job_id}": row,
    }


def test_a_lost_reply_is_said_again(queue: Queue) -> None:
    isolated(queue, 2)
    mine = nonce()
    lost_row = claim_alone(queue, W1, mine)
    with changes(queue) as changed:
        assert claim_alone(queue, W1, mine, again=True) == lost_row
    assert changed == {}


def order_of_claims(queue: Queue, number: int) -> list[str]:
    rows = [claim_alone(queue, W1, nonce()) for _ in range(number)]
    assert claim_alone(queue, W1, nonce()) is None
    return [row.job_id for row in rows]


def test_within_a_lane_the_higher_priority_and_then_the_older_one_comes_first(queue: Queue) -> None:
    low, old = isolated(queue, priority=-1), isolated(queue)
    tick(queue)
    young, high = isolated(queue), isolated(queue, priority=1)
    assert order_of_claims(queue, 4) == [*high, *old, *young, *low]


def test_lanes_have_their_turns(queue: Queue) -> None:
    loud = isolated(queue, 3, lane="loud")
    quiet = isolated(queue, 2, lane="quiet")
    assert order_of_claims(queue, 5) == [loud[0], quiet[0], loud[1], quiet[1], loud[2]]


def test_a_suspect_comes_first(queue: Queue) -> None:
    waiting = isolated(queue, priority=5)
    (suspect,) = suspects(queue)
    assert order_of_claims(queue, 2) == [suspect.job_id, *waiting]


def test_one_that_leaves_others_behind_wakes_the_next_worker(queue: Queue) -> None:
    isolated(queue, 2)
    queue.client.delete(queue.keys.wake)
    claim_alone(queue, W1, nonce())
    assert queue.client.lpop(queue.keys.wake) == b"1"
    claim_alone(queue, W1, nonce())
    assert not queue.client.exists(queue.keys.wake)


STOPS: dict[str, Callable[[Queue], object]] = {
    "the queue is paused": lambda queue: limits.pause(queue),
    "the queue is full": lambda queue: limits.set(queue, concurrency=1),
    "the queue has used its rate": lambda queue: limits.set(queue, rate="1/h"),
    "its lane is paused": lambda queue: limits.pause(queue, lane="a"),
    "its lane is full": lambda queue: limits.set(queue, lane="a", concurrency=1),
    "its lane has used its rate": lambda queue: limits.set(queue, lane="a", rate="1/h"),
}


@pytest.mark.parametrize("stop", STOPS.values(), ids=STOPS)
def test_it_waits_while_its_queue_or_its_lane_lets_nothing_start_and_nobody_is_told_to_run_it(
    queue: Queue, stop: Callable[[Queue], object]
) -> None:
    stop(queue)
    jobs.enqueue(queue, [new_job(queue, lane="a")])
    jobs.claim(queue, W2, nonce(), 1)
    (job_id,) = isolated(queue, lane="a")

    assert not promote(queue).alone
    assert claim_alone(queue, W1, nonce()) is None

    limits.resume(queue)
    limits.resume(queue, lane="a")
    limits.set(queue)
    limits.set(queue, lane="a")
    assert promote(queue).alone
    assert claim_alone(queue, W1, nonce()).job_id == job_id


def test_a_lane_that_lets_nothing_start_holds_up_no_other(queue: Queue) -> None:
    isolated(queue, 100, lane="a", priority=5)
    limits.pause(queue, lane="a")
    (other,) = isolated(queue, lane="b")
    assert promote(queue).alone
    assert order_of_claims(queue, 1) == [other]


def test_it_counts_among_what_runs_in_its_lane(queue: Queue) -> None:
    limits.set(queue, lane="a", concurrency=1)
    row = running(queue, lane="a")
    (ordinary,) = enqueued(queue, lane="a")
    assert jobs.claim(queue, W2, nonce(), 1) == []
    jobs.complete(queue, W1, [completion(row)])
    assert [one.job_id for one in jobs.claim(queue, W2, nonce(), 1)] == [ordinary]


def test_one_that_has_expired_dies_and_the_next_one_is_leased(queue: Queue) -> None:
    (late,) = isolated(queue, extras=Extras(isolate=True, expires=0), priority=1)
    (job_id,) = isolated(queue)
    assert claim_alone(queue, W1, nonce()).job_id == job_id
    corpse = stored(queue, late)
    assert (corpse.state, corpse.failure.reason) == (State.DEAD, "expired")


def test_before_its_last_stall_it_is_a_suspect_and_at_its_bound_it_dies(queue: Queue) -> None:
    row = running(queue, max_stalled=3)
    states = []
    for _ in range(3):
        abandon(queue, W1, [(row.job_id, row.token.fence)])
        states.append(stored(queue, row.job_id).state)
        row = claim_alone(queue, W1, nonce()) or row
    assert states == [State.PENDING, State.SUSPECT, State.DEAD]


def test_a_parcel_keeps_it(queue: Queue) -> None:
    job = new_job(queue, extras=ALONE)
    assert NewJob.unpack(job.parcel("mail")) == ("mail", job)


def test_unique_counts_it_as_waiting_and_then_as_started(queue: Queue) -> None:
    extras = unique("start") | ALONE
    isolated(queue, extras=extras)
    assert jobs.enqueue(queue, [new_job(queue, extras=extras)]) == [Entry.MERGED]
    claim_alone(queue, W1, nonce())
    assert jobs.enqueue(queue, [new_job(queue, extras=extras)]) == [Entry.ADDED]


@pytest.mark.broken_keyspace
def test_a_turn_without_a_job_is_given_up(queue: Queue) -> None:
    isolated(queue)
    queue.client.delete(queue.keys.base + "g::isolated")
    assert claim_alone(queue, W1, nonce()) is None
    assert not promote(queue).alone
