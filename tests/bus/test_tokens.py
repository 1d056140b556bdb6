"""What a holder can still do after it lost its lease: nothing."""

import pytest

from echomq_django.bus import jobs
from echomq_django.bus.jobs import Verdict
from echomq_django.bus.recovery import abandon, recover
from echomq_django.bus.row import State, Token
from tests.bus.scenes import (
    LEASE,
    W1,
    W2,
    active,
    completion,
    death,
    expire,
    nonce,
    release,
    retry,
    server_ms,
    stored,
)
from tests.bus.view import changes

ENDS = {
    "complete": lambda queue, row: jobs.complete(queue, W1, [completion(row)]),
    "retry": lambda queue, row: jobs.retry(queue, W1, [retry(row)]),
    "release": lambda queue, row: jobs.release(queue, W1, [release(row)]),
    "release later": lambda queue, row: jobs.release(queue, W1, [release(row, 5000)]),
    "die": lambda queue, row: jobs.die(queue, W1, [death(row)]),
}
each_end = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)


def lose(queue, row, way):
    if way == "abandoned":
        abandon(queue, W1, [(row.job_id, row.token.fence)])
    else:
        expire(queue, row)
        recover(queue)


@each_end
@pytest.mark.parametrize("way", ["expired", "abandoned"])
@pytest.mark.parametrize("started", [True, False])
def test_a_lease_that_was_taken_back_can_end_nothing(queue, end, way, started):
    (row,) = active(queue, starting=int(started))
    lose(queue, row, way)
    with changes(queue) as changed:
        assert end(queue, row) == [Verdict.STALE]
    assert changed == {}


@each_end
@pytest.mark.parametrize("next_holder", [W2, W1], ids=["another holder", "the same holder"])
def test_a_lease_that_went_on_to_the_next_claim_can_end_nothing(queue, end, next_holder):
    (row,) = active(queue)
    lose(queue, row, "expired")
    (theirs,) = jobs.claim(queue, next_holder, nonce(), 1)
    with changes(queue) as changed:
        assert end(queue, row) == [Verdict.STALE]
    assert changed == {}
    assert stored(queue, row.job_id) == theirs


@each_end
@pytest.mark.parametrize("finish", ENDS.values(), ids=ENDS)
def test_a_lease_of_a_job_that_the_next_holder_ended_can_end_nothing(queue, end, finish):
    (row,) = active(queue)
    lose(queue, row, "expired")
    (theirs,) = jobs.claim(queue, W1, nonce(), 1)
    assert finish(queue, theirs) == [Verdict.ACCEPTED]
    with changes(queue) as changed:
        assert end(queue, row) == [Verdict.STALE]
    assert changed == {}


HANDED_BACK = {"retry", "release", "release later"}


@pytest.mark.parametrize("second", ENDS)
@pytest.mark.parametrize("first", ENDS)
def test_a_lease_ends_once_and_the_first_end_counts(queue, first, second):
    (row,) = active(queue)
    assert ENDS[first](queue, row) == [Verdict.ACCEPTED]
    with changes(queue) as changed:
        verdicts = ENDS[second](queue, row)
    assert changed == {}
    assert verdicts == [Verdict.ACCEPTED if first == second or {first, second} <= HANDED_BACK else Verdict.STALE]


@each_end
@pytest.mark.parametrize("part", ["fence", "nonce"])
def test_a_forged_token_can_end_nothing(queue, end, part):
    (row,) = active(queue)
    honest = row.token
    row.token = Token(honest.fence + 1, honest.nonce) if part == "fence" else Token(honest.fence, bytes(8))
    with changes(queue) as changed:
        assert end(queue, row) == [Verdict.STALE]
    assert changed == {}


@each_end
def test_a_token_is_no_use_once_the_job_is_pending_for_the_first_time_again(queue, end):
    (row,) = active(queue)
    queue.client.flushdb()
    jobs.enqueue(queue, [jobs.NewJob(row.job_id, row.body)])
    with changes(queue) as changed:
        assert end(queue, row) == [Verdict.STALE]
    assert changed == {}


@each_end
def test_a_job_that_is_gone_can_not_be_ended(queue, end):
    (row,) = active(queue)
    queue.client.flushdb()
    with changes(queue) as changed:
        assert end(queue, row) == [Verdict.MISSING]
    assert changed == {}


def test_a_lost_lease_is_not_renewed(queue):
    (row,) = active(queue)
    lose(queue, row, "expired")
    jobs.claim(queue, W2, nonce(), 1)
    with changes(queue) as changed:
        assert jobs.extend(queue, W1, [(row.job_id, row.token.fence)]) == {}
    assert changed == {}


def test_a_holder_that_claimed_its_lost_job_again_sees_the_new_fence(queue):
    (row,) = active(queue, starting=0)
    lose(queue, row, "expired")
    (again,) = jobs.claim(queue, W1, nonce(), 1, starting=0)
    assert jobs.extend(queue, W1, [(row.job_id, row.token.fence)]) == {row.job_id: again.token}
    assert not stored(queue, row.job_id).started


def test_a_restart_under_the_old_name_neither_renews_nor_ends_the_old_lease(queue):
    (row,) = active(queue)
    lose(queue, row, "expired")
    assert jobs.extend(queue, W1) == {}
    (again,) = jobs.claim(queue, W1, nonce(), 1)
    assert jobs.complete(queue, W1, [completion(row)]) == [Verdict.STALE]
    assert jobs.complete(queue, W1, [completion(again)]) == [Verdict.ACCEPTED]


def test_a_renewal_moves_the_deadlines_of_all_that_is_in_the_hand(queue):
    rows = active(queue, 3, starting=1)
    (theirs,) = active(queue, holder=W2)
    expire(queue, *rows)
    before = server_ms(queue)
    with changes(queue) as changed:
        assert jobs.extend(queue, W1) == {row.job_id: row.token for row in rows}
    assert changed.keys() == {"active"}
    deadlines = changed["active"]
    assert deadlines.pop(theirs.job_id) == theirs.claimed_at + LEASE
    assert all(before + LEASE <= deadline <= server_ms(queue) + LEASE for deadline in deadlines.values())
    assert deadlines.keys() == {row.job_id for row in rows}


def test_each_lease_is_renewed_by_its_own_length(queue):
    (short,) = active(queue, lease_ms=1000)
    (long,) = active(queue, lease_ms=90_000)
    jobs.extend(queue, W1)
    deadlines = [queue.client.zscore(queue.keys.active, row.job_id) for row in (short, long)]
    assert deadlines[1] - deadlines[0] == 89_000


def test_a_renewal_tells_which_jobs_have_started_since(queue):
    first, second = active(queue, 2, starting=0)
    with changes(queue) as changed:
        jobs.extend(queue, W1, [(first.job_id, first.token.fence)])
    assert [key for key in changed if key.startswith("job:")] == [f"job:{first.job_id}"]
    assert (stored(queue, first.job_id).started, stored(queue, second.job_id).started) == (True, False)
    jobs.extend(queue, W1, [(first.job_id, first.token.fence)])
    assert stored(queue, first.job_id).started


def test_a_renewal_with_empty_hands_changes_nothing(queue):
    with changes(queue) as changed:
        assert jobs.extend(queue, W1) == {}
    assert changed == {}


def test_a_renewal_never_touches_the_lease_of_another_holder(queue):
    (theirs,) = active(queue, holder=W2)
    queue.client.sadd(queue.keys.hand(W1), theirs.job_id)
    with changes(queue) as changed:
        assert jobs.extend(queue, W1, [(theirs.job_id, theirs.token.fence)]) == {}
    assert changed == {f"hand:{W1}": None}


def test_a_renewal_drops_from_the_hand_what_is_not_there_any_more(queue):
    (row,) = active(queue)
    queue.client.sadd(queue.keys.hand(W1), "JOB00000000000000000000000000")
    with changes(queue) as changed:
        assert jobs.extend(queue, W1) == {row.job_id: row.token}
    assert changed[f"hand:{W1}"] == {row.job_id}


def test_any_number_of_leases_is_renewed_in_one_call(queue):
    for _ in range(25):
        active(queue, 200)
    assert len(jobs.extend(queue, W1)) == 5000


@each_end
def test_every_end_takes_the_job_out_of_its_hand_and_its_lease(queue, end):
    (row,) = active(queue)
    assert end(queue, row) == [Verdict.ACCEPTED]
    assert not queue.client.exists(queue.keys.active, queue.keys.hand(W1))
    ended = jobs.read(queue, row.job_id)
    assert getattr(ended, "state", None) is not State.ACTIVE
