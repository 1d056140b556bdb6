from echomq_django.bus import jobs
from echomq_django.bus.jobs import Verdict, claim_alone
from echomq_django.bus.recovery import recover
from tests.bus.scenes import (
    LEASE,
    W1,
    active,
    completion,
    enqueued,
    expire,
    leased,
    nonce,
    stored,
    suspects,
)
from tests.bus.view import changes

ALONE = "host-1.alone"


def test_a_suspect_is_leased_to_a_holder_of_its_own_and_has_started(queue):
    (suspect,) = suspects(queue, priority=2)
    mine = nonce()
    with changes(queue) as changed:
        row = claim_alone(queue, ALONE, mine)
    assert (row, row.attempts) == (leased(suspect, row, mine, holder=ALONE), 2)
    assert changed == {
        "suspect": None,
        "active": {row.job_id: row.claimed_at + LEASE},
        f"hand:{ALONE}": {row.job_id},
        f"job:{row.job_id}": row,
    }
    assert row.token.fence > suspect.token.fence


def test_suspects_are_run_one_at_a_time_in_their_order(queue):
    low, high = suspects(queue, priority=-1), suspects(queue, priority=1)
    assert [claim_alone(queue, ALONE, nonce()).job_id for _ in range(2)] == [high[0].job_id, low[0].job_id]
    assert claim_alone(queue, ALONE, nonce()) is None


def test_no_suspect_is_no_change(queue):
    enqueued(queue)
    with changes(queue) as changed:
        assert claim_alone(queue, ALONE, nonce()) is None
    assert changed == {}


def test_a_lost_reply_is_asked_for_again_with_the_same_nonce(queue):
    suspects(queue, 2)
    mine = nonce()
    lost = claim_alone(queue, ALONE, mine)
    with changes(queue) as changed:
        assert claim_alone(queue, ALONE, mine, again=True) == lost
    assert changed == {}


def test_a_claim_that_never_arrived_is_made_by_asking_again(queue):
    (suspect,) = suspects(queue)
    row = claim_alone(queue, ALONE, nonce(), again=True)
    assert row.job_id == suspect.job_id


def test_a_suspect_that_ends_well_is_done(queue):
    suspects(queue)
    row = claim_alone(queue, ALONE, nonce())
    assert jobs.complete(queue, ALONE, [completion(row)]) == [Verdict.ACCEPTED]


def test_a_suspect_that_stalls_alone_dies_of_it(queue):
    suspects(queue)
    row = claim_alone(queue, ALONE, nonce())
    expire(queue, row)
    assert recover(queue).died == [row.job_id]
    assert stored(queue, row.job_id).stalled == 2


def test_a_suspect_is_no_job_for_an_ordinary_claim(queue):
    suspects(queue)
    (ordinary,) = active(queue)
    assert jobs.claim(queue, W1, nonce(), 5) == []
    assert stored(queue, ordinary.job_id).holder == W1
