"""One job for one unique key, and what becomes of the lock whatever becomes of the job."""

import pytest

from echomq_django.bus import jobs
from echomq_django.bus.dead import requeue
from echomq_django.bus.jobs import Cancelled, Entry, Verdict, enqueue
from echomq_django.bus.recovery import abandon, recover
from echomq_django.bus.row import Done, State
from echomq_django.bus.schedule import promote
from tests.bus.scenes import (
    SOON,
    W1,
    active,
    completion,
    dead,
    death,
    enqueued,
    expire,
    make_due,
    new_job,
    nonce,
    release,
    retry,
    revival,
    server_ms,
    stored,
    suspects,
    unique,
)
from tests.bus.view import changes, view


def lock(queue, key="k"):
    found = queue.client.get(f"{queue.keys.base}unique:{key}")
    return found and found.decode()


def entry(queue, **options):
    """What becomes of one more job with the key."""
    return enqueue(queue, [new_job(queue, **options)])[0]


def fresh(queue, extras):
    return enqueued(queue, extras=extras)[0]


def in_hand(queue, extras):
    return active(queue, extras=extras)[0].job_id


def backing_off(queue, extras):
    (row,) = active(queue, extras=extras)
    jobs.retry(queue, W1, [retry(row)])
    return row.job_id


PLACES = {
    "pending": fresh,
    "scheduled": lambda queue, extras: enqueued(queue, delay_ms=SOON, extras=extras)[0],
    "active": in_hand,
    "suspect": lambda queue, extras: suspects(queue, extras=extras)[0].job_id,
    "backing off": backing_off,
    "dead": lambda queue, extras: dead(queue, extras=extras)[0].job_id,
}
BLOCKS = {
    "done": {"pending", "scheduled", "active", "suspect", "backing off"},
    "start": {"pending", "scheduled", "backing off"},
    "debounce": {"pending", "scheduled", "backing off"},
}


@pytest.mark.parametrize("mode", BLOCKS)
@pytest.mark.parametrize("place", PLACES)
def test_a_key_is_taken_as_long_as_its_mode_says(queue, mode, place):
    winner = PLACES[place](queue, unique(mode))
    expected = Entry.MERGED if place in BLOCKS[mode] else Entry.ADDED
    other = new_job(queue, extras=unique(mode))
    assert enqueue(queue, [other]) == [expected]
    assert jobs.read(queue, other.job_id).job_id == (winner if expected is Entry.MERGED else other.job_id)
    assert lock(queue) == (winner if expected is Entry.MERGED else other.job_id)


def test_another_key_is_free(queue):
    enqueued(queue, extras=unique())
    assert entry(queue, extras=unique(key="other")) is Entry.ADDED


def test_a_merged_job_leaves_only_an_alias_that_expires(queue):
    (winner,) = enqueued(queue, extras=unique())
    queue.client.delete(queue.keys.wake)
    merged = new_job(queue, extras=unique())
    with changes(queue) as changed:
        assert enqueue(queue, [merged]) == [Entry.MERGED]
    assert changed.keys() == {f"job:{merged.job_id}", "ttl"}
    assert jobs.read(queue, merged.job_id) == stored(queue, winner)


def test_an_alias_shows_the_result_of_the_job_that_stands_for_it(queue):
    (row,) = active(queue, extras=unique())
    merged = new_job(queue, extras=unique())
    enqueue(queue, [merged])
    jobs.complete(queue, W1, [completion(row)])
    done = jobs.read(queue, merged.job_id)
    assert isinstance(done, Done)
    assert done.job_id == row.job_id


def test_an_alias_of_a_job_that_left_shows_nothing(queue):
    (winner,) = enqueued(queue, extras=unique())
    merged = new_job(queue, extras=unique())
    enqueue(queue, [merged])
    jobs.discard(queue, winner)
    assert jobs.read(queue, merged.job_id) is None


def test_saying_it_again_changes_nothing(queue):
    first, second = (new_job(queue, extras=unique()) for _ in range(2))
    assert enqueue(queue, [first, second]) == [Entry.ADDED, Entry.MERGED]
    with changes(queue) as changed:
        assert enqueue(queue, [first, second]) == [Entry.KNOWN, Entry.KNOWN]
    assert changed == {}


def test_of_several_with_one_key_in_one_call_the_first_wins(queue):
    batch = [new_job(queue, extras=unique()) for _ in range(3)]
    other = new_job(queue, extras=unique(key="other"))
    assert enqueue(queue, [batch[0], other, *batch[1:]]) == [Entry.ADDED, Entry.ADDED, Entry.MERGED, Entry.MERGED]
    assert {jobs.read(queue, job.job_id).job_id for job in batch} == {batch[0].job_id}


def lost(queue, row):
    expire(queue, row)
    recover(queue)


EXITS = {
    "completed": lambda queue, row: jobs.complete(queue, W1, [completion(row)]),
    "forgotten": lambda queue, row: jobs.complete(queue, W1, [completion(row, ttl_ms=0)]),
    "died": lambda queue, row: jobs.die(queue, W1, [death(row)]),
    "stalled to death": lambda queue, row: lost(queue, row),
    "abandoned": lambda queue, row: abandon(queue, W1, [(row.job_id, row.token.fence)]),
    "cancelled": lambda queue, row: (jobs.cancel(queue, row.job_id), jobs.retry(queue, W1, [retry(row)])),
}


@pytest.mark.parametrize("mode", BLOCKS)
@pytest.mark.parametrize("leave", EXITS.values(), ids=EXITS)
def test_the_lock_goes_with_the_last_exit(queue, mode, leave):
    (row,) = active(queue, extras=unique(mode), max_stalled=1)
    leave(queue, row)
    assert lock(queue) is None


@pytest.mark.parametrize("take_out", [jobs.cancel, jobs.discard], ids=["cancelled", "discarded"])
@pytest.mark.parametrize("place", sorted(PLACES.keys() - {"active", "dead"}))
def test_the_lock_goes_with_a_job_that_is_taken_out(queue, place, take_out):
    assert take_out(queue, PLACES[place](queue, unique())) == 1
    assert lock(queue) is None


@pytest.mark.parametrize("end", [release, retry])
def test_the_lock_stays_while_the_job_comes_back(queue, end):
    (row,) = active(queue, extras=unique())
    getattr(jobs, end.__name__)(queue, W1, [end(row)])
    assert lock(queue) == row.job_id


def test_a_job_that_lost_its_lock_leaves_that_of_its_follower_alone(queue):
    (row,) = active(queue, extras=unique("start"))
    (follower,) = enqueued(queue, extras=unique("start"))
    jobs.complete(queue, W1, [completion(row)])
    assert lock(queue) == follower
    assert entry(queue, extras=unique("start")) is Entry.MERGED


@pytest.mark.broken_keyspace
def test_the_lock_of_a_lost_job_does_not_count(queue):
    (lost,) = enqueued(queue, extras=unique())
    queue.client.delete(queue.keys.job(lost))
    assert entry(queue, extras=unique()) is Entry.ADDED


def test_a_requeued_job_has_no_key(queue):
    (row,) = dead(queue, extras=unique())
    assert requeue(queue, revival(row))
    assert stored(queue, row.job_id).extras == {}
    assert lock(queue) is None
    assert entry(queue, extras=unique()) is Entry.ADDED


@pytest.mark.parametrize("place", PLACES)
def test_a_key_with_a_time_is_taken_until_then_whatever_becomes_of_the_job(queue, place):
    PLACES[place](queue, unique(ms=SOON))
    assert entry(queue, extras=unique(ms=SOON)) is Entry.MERGED
    queue.client.delete(f"{queue.keys.base}unique:k")
    assert entry(queue, extras=unique(ms=SOON)) is Entry.ADDED


def test_a_key_with_a_time_is_not_given_back(queue):
    (row,) = active(queue, extras=unique(ms=SOON))
    jobs.complete(queue, W1, [completion(row, ttl_ms=0)])
    assert lock(queue) == row.job_id
    assert 0 < queue.client.pttl(f"{queue.keys.base}unique:k") <= SOON


@pytest.mark.parametrize("place", ["pending", "scheduled", "backing off"])
def test_debounce_gives_the_waiting_job_the_new_arguments_and_the_new_delay(queue, place):
    winner = PLACES[place](queue, unique("debounce"))
    before = stored(queue, winner)
    assert entry(queue, body=b"new", delay_ms=2 * SOON, extras=unique("debounce")) is Entry.MERGED
    after = stored(queue, winner)
    assert (after.state, after.body, after.extras) == (State.SCHEDULED, b"new", before.extras)
    assert (after.attempts, after.failures, after.failure) == (before.attempts, before.failures, before.failure)
    assert after.ready_at > server_ms(queue) + SOON
    assert after.enqueued_at == before.enqueued_at
    make_due(queue, winner)
    assert promote(queue).count == 1
    assert [row.body for row in jobs.claim(queue, W1, nonce(), 5)] == [b"new"]


@pytest.mark.parametrize("place", ["pending", "scheduled"])
def test_debounce_without_a_delay_lets_the_job_run_now(queue, place):
    winner = PLACES[place](queue, unique("debounce"))
    queue.client.delete(queue.keys.wake)
    assert entry(queue, body=b"new", lane="other", extras=unique("debounce")) is Entry.MERGED
    assert queue.client.llen(queue.keys.wake) == 1
    assert [(row.job_id, row.lane, row.body) for row in jobs.claim(queue, W1, nonce(), 5)] == [(winner, "", b"new")]


def test_debounce_within_one_call_keeps_the_last_arguments(queue):
    batch = [new_job(queue, body=bytes([n]), delay_ms=SOON, extras=unique("debounce")) for n in range(3)]
    assert enqueue(queue, batch) == [Entry.ADDED, Entry.MERGED, Entry.MERGED]
    assert stored(queue, batch[0].job_id).body == b"\2"


def test_debounce_of_a_lane_with_others_leaves_them_alone(queue):
    (winner,) = enqueued(queue, lane="a", extras=unique("debounce"))
    others = enqueued(queue, 2, lane="a")
    entry(queue, delay_ms=SOON, extras=unique("debounce"))
    assert view(queue)["g:a:pending"].keys() == set(others)
    assert view(queue)["scheduled"].keys() == {winner}


def test_a_merged_job_can_not_be_discarded(queue):
    enqueued(queue, extras=unique())
    merged = new_job(queue, extras=unique())
    enqueue(queue, [merged])
    assert jobs.discard(queue, merged.job_id) is Verdict.MISSING


def test_a_merged_job_can_not_be_cancelled_since_others_wait_for_the_one_that_stands_for_it(queue):
    (winner,) = enqueued(queue, extras=unique())
    merged = new_job(queue, extras=unique())
    enqueue(queue, [merged])
    with changes(queue) as changed:
        assert jobs.cancel(queue, merged.job_id) is Cancelled.MERGED
    assert changed == {}
    assert jobs.stands_for(queue, merged.job_id) == winner == jobs.stands_for(queue, winner)
    assert jobs.cancel(queue, winner) is Cancelled.NOW
