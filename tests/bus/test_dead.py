from dataclasses import replace

import pytest

from echomq_django.bus import jobs
from echomq_django.bus.dead import Dead, forget, requeue, unmirrored
from echomq_django.bus.row import State
from echomq_django.exceptions import InvalidName
from tests.bus.scenes import (
    LEASE,
    SOON,
    W1,
    active,
    completion,
    dead,
    death,
    enqueued,
    nonce,
    revival,
    server_ms,
    tick,
)
from tests.bus.view import changes


def test_unmirrored_deaths_are_read_oldest_first_with_their_rows(queue):
    rows = dead(queue) + dead(queue, lane="a")
    queue.client.zincrby(queue.keys.dead, -5000, rows[1].job_id)
    with changes(queue) as changed:
        deaths = unmirrored(queue)
    assert changed == {}
    died_at = {name.decode(): int(at) for name, at in queue.client.zrange(queue.keys.dead, 0, -1, withscores=True)}
    assert deaths == [Dead(row.job_id, died_at[row.job_id], row) for row in reversed(rows)]


def test_no_death_is_an_empty_list(queue):
    assert unmirrored(queue) == []


def test_a_limit_bounds_what_is_read(queue):
    dead(queue, 5)
    assert len(unmirrored(queue, 3)) == 3


def test_large_deaths_are_read_a_megabyte_at_a_time(queue):
    dead(queue, 5, body=bytes(400_000))
    assert len(unmirrored(queue)) == 3


def test_a_death_that_the_database_has_is_forgotten(queue):
    row, other = dead(queue, 2)
    with changes(queue) as changed:
        assert forget(queue, [(row.job_id, str(row.token))]) == [True]
    assert changed == {"dead": changed["dead"], f"job:{row.job_id}": None}
    assert changed["dead"].keys() == {other.job_id}


def test_a_death_is_forgotten_once(queue):
    (row,) = dead(queue)
    key = (row.job_id, str(row.token))
    assert forget(queue, [key, key]) == [True, True]
    with changes(queue) as changed:
        assert forget(queue, [key]) == [False]
    assert changed == {}


def test_only_that_death_is_forgotten_and_no_later_one(queue):
    (row,) = dead(queue)
    requeue(queue, revival(row))
    (again,) = jobs.claim(queue, W1, nonce(), 1)
    jobs.die(queue, W1, [death(again)])
    with changes(queue) as changed:
        assert forget(queue, [(row.job_id, str(row.token))]) == [False]
    assert changed == {}
    assert forget(queue, [(row.job_id, str(again.token))]) == [True]


@pytest.mark.parametrize("life", ["pending", "active", "done"])
def test_a_job_that_lives_again_is_not_forgotten(queue, life):
    (row,) = dead(queue)
    requeue(queue, revival(row))
    if life != "pending":
        (again,) = jobs.claim(queue, W1, nonce(), 1)
    if life == "done":
        jobs.complete(queue, W1, [completion(again)])
    with changes(queue) as changed:
        assert forget(queue, [(row.job_id, str(row.token))]) == [False]
    assert changed == {}


def test_a_crowd_of_deaths_is_forgotten_in_chunks(queue):
    rows = [row for _ in range(3) for row in dead(queue, 150)]
    assert all(forget(queue, [(row.job_id, str(row.token)) for row in rows]))


def test_forgetting_nothing_needs_no_call(queue):
    assert forget(queue, []) == []


@pytest.mark.parametrize("lane", ["", "a"])
@pytest.mark.parametrize("known", ["on the server", "mirrored", "only in the database"])
def test_a_requeued_job_lives_with_new_budgets_and_its_history(queue, lane, known):
    (row,) = dead(queue, lane=lane, priority=5, max_stalled=None)
    if known == "mirrored":
        forget(queue, [(row.job_id, str(row.token))])
    elif known == "only in the database":
        queue.client.flushdb()
    queue.client.delete(queue.keys.wake)
    before = server_ms(queue)
    with changes(queue) as changed:
        assert requeue(queue, revival(row))
    alive = changed[f"job:{row.job_id}"]
    assert before <= alive.ready_at <= server_ms(queue)
    assert alive == replace(
        row,
        state=State.PENDING,
        order=95 * 2**43 + alive.ready_at,
        via_outbox=True,
        failures=0,
        stalled=0,
        claimed_at=0,
        holder="",
        token=row.token._replace(nonce=bytes(8)),
        failure=None,
    )
    assert (alive.attempts, alive.deaths, alive.body, alive.lease_ms) == (1, 1, row.body, LEASE)
    changed.pop("meta", None)
    changed.pop("dead", None)
    assert changed == {
        f"g:{lane}:pending" if lane else "pending": {row.job_id: alive.order},
        "lanes": {lane: 1},
        "wake": [b"1"],
        "events": [("requeued", row.job_id, str(row.token))],
        f"job:{row.job_id}": alive,
    }
    assert not queue.client.exists(queue.keys.dead)


def test_the_fence_grows_over_a_requeue(queue):
    (row,) = dead(queue)
    queue.client.flushdb()
    requeue(queue, revival(row))
    (again,) = jobs.claim(queue, W1, nonce(), 1)
    assert again.token.fence > row.token.fence
    assert (again.attempts, again.deaths) == (2, 1)


@pytest.mark.parametrize("life", ["pending", "scheduled", "active", "suspect", "done", "dead once more"])
def test_a_requeue_of_an_old_death_leaves_the_job_alone(queue, life):
    (row,) = dead(queue)
    assert requeue(queue, revival(row))
    if life != "pending":
        (again,) = jobs.claim(queue, W1, nonce(), 1)
        _move(queue, again, life)
    with changes(queue) as changed:
        assert not requeue(queue, revival(row))
    assert changed == {}


def _move(queue, row, life):
    from echomq_django.bus.recovery import abandon

    if life == "scheduled":
        jobs.release(queue, W1, [jobs.Release(row.job_id, row.token, SOON)])
    elif life == "done":
        jobs.complete(queue, W1, [completion(row)])
    elif life == "dead once more":
        jobs.die(queue, W1, [death(row)])
    elif life == "suspect":
        (other,) = active(queue)
        abandon(queue, W1, [(one.job_id, one.token.fence) for one in (row, other)])


def test_a_requeue_with_a_lane_that_no_key_can_hold_is_refused(queue):
    (row,) = dead(queue)
    with changes(queue) as changed, pytest.raises(InvalidName):
        requeue(queue, revival(row, lane="x" * 300))
    assert changed == {}


def test_a_requeued_job_goes_behind_those_that_wait(queue):
    (row,) = dead(queue)
    waiting = enqueued(queue, 2)
    tick(queue)
    requeue(queue, revival(row))
    assert [one.job_id for one in jobs.claim(queue, W1, nonce(), 3)][:2] == waiting
