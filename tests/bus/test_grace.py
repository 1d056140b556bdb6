"""After an outage or a step of the clock every lease looks expired: holders get the time to renew first."""

import pytest

from echomq_django.bus import jobs
from echomq_django.bus.queue import open_queue
from echomq_django.bus.recovery import recover
from tests.bus.scenes import LEASE, SOON, W1, active, expire, server_ms
from tests.bus.view import changes

BEAT = 1000
OUTAGE = 3 * BEAT + 500
GRACE = LEASE // 3 + 1000


def last_pass(queue, ago_ms):
    queue.client.hset(queue.keys.meta, "last_pass", server_ms(queue) - ago_ms)


def gap(queue, ago_ms):
    """Let an outage have ended so long ago, with a pass just now."""
    now = server_ms(queue)
    queue.client.hset(queue.keys.meta, mapping={"last_pass": now, "gap_at": now - ago_ms})


def expired(queue, number=1, **options):
    rows = active(queue, number, **options)
    expire(queue, *rows)
    return rows


def test_nothing_is_taken_in_the_first_pass_after_an_outage(queue):
    expired(queue, 3)
    last_pass(queue, OUTAGE)
    with changes(queue) as changed:
        recovered = recover(queue)
    assert (recovered.stalled, recovered.died, recovered.unstarted) == ([], [], [])
    assert GRACE - 1000 < recovered.grace_ms <= GRACE
    assert changed.keys() == {"meta", "active"}
    now = server_ms(queue)
    assert all(now + GRACE - 1000 < deadline <= now + GRACE for deadline in changed["active"].values())


def test_the_very_first_pass_waits_too(queue):
    expired(queue)
    queue.client.hdel(queue.keys.meta, "last_pass")
    assert recover(queue).grace_ms > 0


def test_the_grace_goes_on_in_the_passes_that_follow(queue):
    expired(queue)
    last_pass(queue, OUTAGE)
    first, second = recover(queue), recover(queue)
    assert second.stalled == []
    assert 0 < second.grace_ms <= first.grace_ms


def test_the_grace_ends(queue):
    (row,) = expired(queue)
    gap(queue, GRACE + 1)
    assert recover(queue).stalled == [row.job_id]


def test_a_lease_that_is_renewed_in_the_grace_is_never_taken(queue):
    renewed, silent = expired(queue, 2)
    last_pass(queue, OUTAGE)
    recover(queue)
    jobs.extend(queue, W1)
    queue.client.zadd(queue.keys.active, {silent.job_id: server_ms(queue) - 1})
    gap(queue, GRACE + 1)
    assert recover(queue).stalled == [silent.job_id]
    assert queue.client.zrange(queue.keys.active, 0, -1) == [renewed.job_id.encode()]


@pytest.mark.parametrize("beat_ms", [1000, 30_000])
def test_a_beat_that_comes_late_is_no_outage(queue, beat_ms):
    (row,) = expired(queue)
    last_pass(queue, 3 * beat_ms - 500)
    assert recover(queue, beat_ms=beat_ms).stalled == [row.job_id]


@pytest.mark.parametrize("beat_ms", [1000, 30_000])
def test_a_beat_that_comes_too_late_is_an_outage(queue, beat_ms):
    expired(queue)
    last_pass(queue, 3 * beat_ms + 500)
    assert recover(queue, beat_ms=beat_ms).grace_ms > 0


def test_the_lease_of_the_queue_decides_how_long_the_grace_is_said_to_be(queue):
    open_queue(queue, 300_000)
    last_pass(queue, OUTAGE)
    assert 100_000 < recover(queue).grace_ms <= 101_000


def test_each_lease_has_a_grace_of_its_own_length(queue):
    (short,), (long,) = expired(queue, lease_ms=3000), expired(queue, lease_ms=90_000)
    gap(queue, 5000)
    assert recover(queue).stalled == [short.job_id]
    expire(queue, long)
    gap(queue, 32_000)
    assert recover(queue).stalled == [long.job_id]


def test_a_crowd_of_long_leases_in_their_grace_hides_no_short_one(queue):
    expired(queue, 250, lease_ms=3_600_000)
    (short,) = expired(queue, lease_ms=3000)
    queue.client.zincrby(queue.keys.active, 0.5, short.job_id)  # behind all the others
    gap(queue, 5000)
    passes = [recover(queue), recover(queue)]
    assert [one.again for one in passes] == [True, False]
    assert [one.stalled for one in passes] == [[], [short.job_id]]


def test_a_lease_that_is_shorter_than_its_grace_is_never_longer_than_a_lease(queue):
    (row,) = expired(queue, lease_ms=300)
    last_pass(queue, OUTAGE)
    recover(queue)
    assert queue.client.zscore(queue.keys.active, row.job_id) <= server_ms(queue) + 300


def test_a_clock_that_stepped_back_costs_nobody_a_lease_and_holds_nobody_for_ever(queue):
    rows = active(queue, 3)
    step = 3_600_000
    queue.client.zadd(queue.keys.active, {row.job_id: server_ms(queue) + step + LEASE for row in rows})
    last_pass(queue, -step)
    with changes(queue) as changed:
        recovered = recover(queue)
    assert recovered.grace_ms > 0
    assert changed.keys() == {"meta", "active"}
    now = server_ms(queue)
    assert all(now < deadline <= now + LEASE for deadline in changed["active"].values())


def test_a_grace_that_began_before_the_clock_stepped_back_does_not_last_for_ever(queue):
    queue.client.hset(queue.keys.meta, "gap_at", server_ms(queue) + 3_600_000)
    last_pass(queue, -3_600_000)
    assert recover(queue).grace_ms <= GRACE


def test_each_lease_is_shortened_to_its_own_length(queue):
    (short,), (long,) = active(queue, lease_ms=1000), active(queue, lease_ms=SOON)
    queue.client.zadd(queue.keys.active, {short.job_id: server_ms(queue) + 2 * SOON}, xx=True)
    last_pass(queue, -60_000)
    with changes(queue) as changed:
        recover(queue)
    assert changed["active"][short.job_id] <= server_ms(queue) + 1000
    assert changed["active"][long.job_id] == long.claimed_at + SOON


def test_a_crowd_is_shortened_chunk_by_chunk(queue):
    rows = active(queue, 50)
    queue.client.zadd(queue.keys.active, {row.job_id: server_ms(queue) + 3_600_000 for row in rows})
    last_pass(queue, -3_600_000)
    for _ in range(4):
        recover(queue, limit=20)
    latest = max(score for _, score in queue.client.zrange(queue.keys.active, 0, -1, withscores=True))
    assert latest <= server_ms(queue) + LEASE
