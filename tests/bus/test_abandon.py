from dataclasses import replace

import pytest

from echomq_django.bus import jobs
from echomq_django.bus.recovery import Recovered, abandon, recover
from echomq_django.bus.row import State
from tests.bus.scenes import W1, W2, active, enqueued, expire, nonce, stored
from tests.bus.view import changes

NOTHING = Recovered([], [], [], [])


def running(*rows):
    return [(row.job_id, row.token.fence) for row in rows]


def test_the_one_job_that_was_running_is_charged_and_the_rest_goes_back(queue):
    first, second, third = active(queue, 3)
    queue.client.delete(queue.keys.wake)
    with changes(queue) as changed:
        recovered = abandon(queue, W1, running(second))
    assert recovered.stalled == [second.job_id]
    assert sorted(recovered.unstarted) == sorted([first.job_id, third.job_id])
    assert changed.keys() == {"active", f"hand:{W1}", "pending", "lanes", "wake", "events"} | {
        f"job:{row.job_id}" for row in (first, second, third)
    }
    assert changed["pending"] == {row.job_id: row.order for row in (first, second, third)}
    assert [stored(queue, row.job_id).stalled for row in (first, second, third)] == [0, 1, 0]


def test_of_several_running_jobs_each_becomes_a_suspect_without_a_charge(queue):
    first, second, waiting = active(queue, 3)
    with changes(queue) as changed:
        recovered = abandon(queue, W1, running(first, second))
    assert sorted(recovered.suspect) == sorted([first.job_id, second.job_id])
    assert (recovered.unstarted, recovered.stalled) == ([waiting.job_id], [])
    assert changed["suspect"] == {row.job_id: row.order for row in (first, second)}
    assert sorted(changed["events"]) == sorted(
        [("suspected", row.job_id, W1) for row in (first, second)] + [("unstarted", waiting.job_id, W1)]
    )
    assert changed[f"job:{first.job_id}"] == replace(
        first, state=State.SUSPECT, started=False, token=first.token._replace(nonce=bytes(8))
    )


def test_the_neighbours_of_a_killer_never_pay(queue):
    killer, *neighbours = active(queue, 4, max_stalled=3)
    rows = {row.job_id: row for row in (killer, *neighbours)}
    abandon(queue, W1, running(*rows.values()))
    for _ in range(3):
        while suspect := jobs.claim_alone(queue, W1, nonce()):
            if suspect.job_id == killer.job_id:
                abandon(queue, W1, running(suspect))
            else:
                jobs.release(queue, W1, [jobs.Release(suspect.job_id, suspect.token)])
        abandon(queue, W1, running(*(row for row in jobs.claim(queue, W1, nonce(), 10) if row.job_id == killer.job_id)))
    assert stored(queue, killer.job_id).state is State.DEAD
    assert stored(queue, killer.job_id).stalled == 3
    assert [stored(queue, row.job_id).stalled for row in neighbours] == [0, 0, 0]


@pytest.mark.parametrize("bound", [1, 2, 3])
def test_a_job_that_kills_each_holder_dies_at_exactly_its_bound(queue, bound):
    (job_id,) = enqueued(queue, max_stalled=bound)
    passes = []
    while row := next(iter(jobs.claim(queue, W1, nonce(), 1)), None) or jobs.claim_alone(queue, W1, nonce()):
        passes.append(abandon(queue, W1, running(row)))
    assert passes[-1] == replace(NOTHING, died=[job_id], deaths=1)
    assert (len(passes), stored(queue, job_id).stalled) == (bound, bound)


def test_a_holder_that_ran_nothing_costs_nobody_anything(queue):
    rows = active(queue, 2)
    assert sorted(abandon(queue, W1, []).unstarted) == sorted(row.job_id for row in rows)
    assert [stored(queue, row.job_id).stalled for row in rows] == [0, 0]


def test_saying_it_again_changes_nothing(queue):
    (row,) = active(queue)
    abandon(queue, W1, running(row))
    with changes(queue) as changed:
        assert abandon(queue, W1, running(row)) == NOTHING
    assert changed == {}


def test_what_other_holders_have_is_left_alone(queue):
    (mine,), (theirs,) = active(queue), active(queue, holder=W2)
    with changes(queue) as changed:
        abandon(queue, W1, running(mine, theirs))
    assert f"job:{theirs.job_id}" not in changed
    assert changed["active"].keys() == {theirs.job_id}
    assert f"hand:{W2}" not in changed


def test_a_job_that_ran_under_an_older_lease_is_not_charged(queue):
    (row,) = active(queue)
    jobs.release(queue, W1, [jobs.Release(row.job_id, row.token)])
    jobs.claim(queue, W1, nonce(), 1)
    assert abandon(queue, W1, running(row)) == replace(NOTHING, unstarted=[row.job_id])


def test_a_job_that_recovery_took_first_is_not_charged_twice(queue):
    (row,) = active(queue)
    expire(queue, row)
    recover(queue)
    with changes(queue) as changed:
        assert abandon(queue, W1, running(row)) == NOTHING
    assert changed == {}
    assert stored(queue, row.job_id).stalled == 1


def test_each_job_goes_back_to_its_own_lane(queue):
    rows = active(queue, lane="a") + active(queue, lane="b") + active(queue)
    with changes(queue) as changed:
        abandon(queue, W1, [])
    assert [changed[key] for key in ("g:a:pending", "g:b:pending", "pending")] == [
        {row.job_id: row.order} for row in rows
    ]
    assert changed["lanes"].keys() == {"a", "b", ""}


def test_the_job_of_another_holder_is_left_alone_even_if_the_dead_hand_names_it(queue):
    (theirs,) = active(queue, holder=W2)
    queue.client.sadd(queue.keys.hand(W1), theirs.job_id)
    with changes(queue) as changed:
        assert abandon(queue, W1, running(theirs)) == NOTHING
    assert changed == {f"hand:{W1}": None}


def test_a_name_in_the_hand_without_a_row_is_dropped(queue):
    (row,) = active(queue)
    queue.client.sadd(queue.keys.hand(W1), "JOB00000000000000000000000000")
    assert abandon(queue, W1, []).unstarted == [row.job_id]
    assert not queue.client.exists(queue.keys.hand(W1))
