from struct import pack

import pytest

from echomq_django.bus import jobs
from echomq_django.bus.jobs import claim
from echomq_django.bus.recovery import abandon, recover
from echomq_django.bus.schedule import promote
from tests.bus.scenes import (
    FAILURE,
    LEASE,
    SOON,
    W1,
    W2,
    active,
    completion,
    enqueued,
    expire,
    leased,
    make_due,
    nonce,
    release,
    retry,
    server_ms,
    stored,
)
from tests.bus.view import changes, view


def claimed_ids(queue, number):
    return [row.job_id for row in claim(queue, W1, nonce(), number)]


def test_a_claim_moves_a_job_into_one_hand(queue):
    (job_id,) = enqueued(queue)
    pending, mine, before = stored(queue, job_id), nonce(), server_ms(queue)
    with changes(queue) as changed:
        (row,) = claim(queue, W1, mine, 5)
    assert before <= row.claimed_at <= server_ms(queue)
    assert (row, row.attempts) == (leased(pending, row, mine), 1)
    assert changed == {
        "pending": None,
        "lanes": None,
        "active": {job_id: row.claimed_at + LEASE},
        f"hand:{W1}": {job_id},
        f"job:{job_id}": row,
    }


def test_a_claim_of_a_part_leaves_the_rest_and_wakes_the_next_worker(queue):
    first, *rest = enqueued(queue, 3)
    queue.client.delete(queue.keys.wake)
    with changes(queue) as changed:
        assert claimed_ids(queue, 1) == [first]
    assert changed["pending"].keys() == set(rest)
    assert changed["wake"] == [b"1"]
    assert "lanes" not in changed


def test_a_claim_on_an_empty_queue_changes_nothing(queue):
    with changes(queue) as changed:
        assert claim(queue, W1, nonce(), 5) == []
    assert changed == {}


@pytest.mark.parametrize("number", [0, -1])
def test_a_claim_of_no_job_takes_none(queue, number):
    enqueued(queue, 3)
    enqueued(queue, 3, lane="a")
    with changes(queue) as changed:
        assert claim(queue, W1, nonce(), number) == []
    assert changed == {}


def test_a_claim_takes_two_hundred_at_most(queue):
    enqueued(queue, 210)
    assert len(claim(queue, W1, nonce(), 1000)) == 200


def test_a_claim_never_answers_with_more_than_about_a_megabyte(queue):
    enqueued(queue, 10, body=bytes(400_000))
    assert len(claim(queue, W1, nonce(), 10)) <= 3


def test_only_the_jobs_that_start_now_count_as_started(queue):
    rows = active(queue, 3, starting=1)
    assert [row.started for row in rows] == [True, False, False]


def test_a_lost_reply_is_asked_for_again_with_the_same_nonce(queue):
    enqueued(queue, 3)
    enqueued(queue, 2, lane="a")
    mine = nonce()
    lost = claim(queue, W1, mine, 4, starting=2)
    with changes(queue) as changed:
        again = claim(queue, W1, mine, 4, starting=2, again=True)
    assert sorted(again, key=lambda row: row.job_id) == sorted(lost, key=lambda row: row.job_id)
    assert changed == {}


def test_a_claim_that_never_arrived_is_made_by_asking_again(queue):
    (job_id,) = enqueued(queue)
    assert [row.job_id for row in claim(queue, W1, nonce(), 1, again=True)] == [job_id]


def test_asking_again_never_returns_what_is_no_longer_mine(queue):
    mine = nonce()
    enqueued(queue, 3)
    done, lost, kept = claim(queue, W1, mine, 3)
    jobs.complete(queue, W1, [completion(done)])
    expire(queue, lost)
    recover(queue)
    (other,) = claim(queue, W2, nonce(), 1)
    assert other.job_id == lost.job_id
    assert claim(queue, W1, mine, 3, again=True) == [kept]


def test_asking_again_leaves_out_what_another_claim_of_mine_got(queue):
    enqueued(queue, 2)
    mine = nonce()
    (first,) = claim(queue, W1, mine, 1)
    claim(queue, W1, nonce(), 1)
    assert claim(queue, W1, mine, 1, again=True) == [first]


def test_asking_again_leaves_out_the_error_as_the_first_answer_did(queue):
    (row,) = active(queue)
    jobs.retry(queue, W1, [retry(row)])
    make_due(queue, row.job_id)
    promote(queue)
    mine = nonce()
    first = claim(queue, W1, mine, 1)
    assert claim(queue, W1, mine, 1, again=True) == first
    assert stored(queue, row.job_id).failure == FAILURE


def test_the_oldest_is_claimed_first(queue):
    fresh = [*enqueued(queue, 5), *enqueued(queue, 5)]
    assert claimed_ids(queue, 10) == fresh


def test_a_higher_priority_goes_first_in_its_lane(queue):
    (low,), (normal,), (high,) = (enqueued(queue, priority=priority) for priority in (-100, 0, 100))
    assert claimed_ids(queue, 3) == [high, normal, low]


def test_a_retried_job_goes_behind_those_that_waited_longer(queue):
    (row,) = active(queue)
    (waiting,) = enqueued(queue)
    jobs.retry(queue, W1, [retry(row, delay_ms=5)])
    make_due(queue, row.job_id)
    promote(queue)
    assert claimed_ids(queue, 2) == [waiting, row.job_id]


@pytest.mark.parametrize("way", ["recovered", "released", "abandoned"])
def test_a_job_that_comes_back_without_fault_keeps_its_place(queue, way):
    (row,) = active(queue)
    enqueued(queue, 3)
    if way == "released":
        jobs.release(queue, W1, [release(row)])
    elif way == "abandoned":
        abandon(queue, W1, [])
    else:
        expire(queue, row)
        recover(queue)
    assert claimed_ids(queue, 1) == [row.job_id]


def test_the_fence_grows_with_each_claim(queue):
    (row,) = active(queue)
    fences = [row.token.fence]
    for _ in range(5):
        jobs.release(queue, W1, [release(row)])
        (row,) = claim(queue, W1, nonce(), 1)
        fences.append(row.token.fence)
    assert fences == sorted(set(fences))


def test_the_fence_grows_over_a_loss_of_the_row(queue):
    (row,) = active(queue)
    queue.client.flushdb()
    (again,) = active(queue, job_id=row.job_id)
    assert again.token.fence > row.token.fence
    assert again.attempts == 1


def test_the_fence_grows_over_a_failover_that_lost_the_claim(queue):
    (job_id,) = enqueued(queue)
    before = {key: queue.client.dump(key) for key in queue.client.scan_iter(f"{queue.keys.prefix}:*")}
    (lost,) = claim(queue, W1, nonce(), 1)
    queue.client.flushdb()
    for key, value in before.items():
        queue.client.restore(key, 0, value)
    (row,) = claim(queue, W2, nonce(), 1)
    assert (row.job_id, row.attempts) == (job_id, lost.attempts)
    assert row.token.fence > lost.token.fence
    assert jobs.complete(queue, W1, [completion(lost)]) == [jobs.Verdict.STALE]


def test_the_fence_grows_even_if_the_clock_stepped_back(queue):
    (row,) = active(queue)
    jobs.release(queue, W1, [release(row)])
    ahead = 2**52
    raw = queue.client.get(queue.keys.job(row.job_id))
    queue.client.set(queue.keys.job(row.job_id), raw.replace(pack("<d", row.token.fence), pack("<d", ahead)))
    (again,) = claim(queue, W1, nonce(), 1)
    assert again.token.fence == ahead + 1


def test_a_claim_leaves_every_other_job_alone(queue):
    active(queue, 2, holder=W2)
    enqueued(queue, 2, delay_ms=SOON)
    others = view(queue)
    (job_id,) = enqueued(queue)
    claim(queue, W1, nonce(), 1)
    after = view(queue)
    assert {key: after[key] for key in others if key.startswith(("job:", "hand:", "scheduled"))} == {
        key: others[key] for key in others if key.startswith(("job:", "hand:", "scheduled"))
    }
    assert after["active"].keys() == others["active"].keys() | {job_id}
