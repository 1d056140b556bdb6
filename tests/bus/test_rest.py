"""Passes over a queue without leases are seconds apart: that takes none from the living and leaves none to the dead."""

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings

from echomq_django.bus import jobs
from echomq_django.bus.recovery import recover
from tests.bus.scenes import W1, active, stay_awake

BEAT = 1000
SLACK = 500  # the test itself takes time
examples = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
leases = st.sampled_from([2000, 6000, 12_000, 30_000, 60_000])


def rest_of(lease):
    """Return what a supervisor waits at most between two passes over a queue where nothing happens."""
    return max(BEAT, min(5000, lease // 6))


def let_pass(queue, ms):
    """Let so much time pass on the server: all that it remembers is older, and all leases are shorter."""
    for field in ("last_pass", "gap_at"):
        queue.client.hincrby(queue.keys.meta, field, -ms)
    for job_id in queue.client.zrange(queue.keys.active, 0, -1):
        queue.client.zincrby(queue.keys.active, -ms, job_id)


def claimed_after_a_pass(queue, lease, ago_ms):
    """Let somebody claim so long after a pass that saw no lease."""
    queue.client.flushdb()
    stay_awake(queue)
    assert recover(queue).active == 0
    let_pass(queue, ago_ms)
    (row,) = active(queue, lease_ms=lease)
    return row


@given(
    lease=leases,
    claimed=st.floats(0, 1),
    alive=st.floats(0, 0.6),
    away=st.integers(3 * BEAT + 1, 7_200_000),
    passes=st.floats(0, 1),
    renews=st.floats(0, 1),
)
@examples
def test_no_live_lease_is_taken_after_an_outage_or_a_step_of_the_clock_however_long_a_rest_was(
    queue, lease, claimed, alive, away, passes, renews
):
    rest = rest_of(lease)
    row = claimed_after_a_pass(queue, lease, round(claimed * rest))
    let_pass(queue, round(alive * (1 - claimed) * rest) + away)
    # The holder hears of the server within a second and renews each third of a lease; others pass when it suits them.
    until_renewal, until_pass = round(renews * (lease // 3 + BEAT - SLACK)), round(passes * rest)
    while until_pass <= until_renewal:
        let_pass(queue, until_pass)
        assert recover(queue, beat_ms=BEAT).stalled == []
        until_renewal, until_pass = until_renewal - until_pass, BEAT
    let_pass(queue, until_renewal)
    assert jobs.extend(queue, W1) == {row.job_id: row.token}
    assert recover(queue, beat_ms=BEAT).stalled == []


@given(lease=leases, claimed=st.floats(0, 1))
@examples
def test_what_a_worker_took_with_it_after_a_rest_comes_back_within_its_lease_and_a_beat(queue, lease, claimed):
    rest = rest_of(lease)
    row = claimed_after_a_pass(queue, lease, round(claimed * rest))
    passed = rest - round(claimed * rest)
    let_pass(queue, passed)
    while not (stalled := recover(queue, beat_ms=BEAT).stalled):
        assert passed <= lease + SLACK
        let_pass(queue, BEAT)
        passed += BEAT
    assert stalled == [row.job_id]
    assert passed >= lease - SLACK
