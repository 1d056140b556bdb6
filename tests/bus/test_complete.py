import pytest

from echomq_django.bus import jobs
from echomq_django.bus.jobs import Verdict, complete
from echomq_django.bus.recovery import recover
from echomq_django.bus.row import Done
from tests.bus.scenes import W1, W2, active, completion, enqueued, expire, new_job, nonce, server_ms, stored
from tests.bus.view import changes


def test_a_job_that_ends_well_leaves_one_lean_row_that_expires(queue):
    (row,) = active(queue)
    before = server_ms(queue)
    with changes(queue) as changed:
        assert complete(queue, W1, [completion(row)]) == [Verdict.ACCEPTED]
    done = changed[f"job:{row.job_id}"]
    assert before <= done.finished_at <= server_ms(queue)
    assert changed == {
        "active": None,
        f"hand:{W1}": None,
        f"job:{row.job_id}": Done(
            job_id=row.job_id,
            task="app.tasks.send",
            holder=W1,
            value=b'"sent"',
            attempts=1,
            fence=row.token.fence,
            enqueued_at=row.enqueued_at,
            started_at=row.claimed_at,
            finished_at=done.finished_at,
        ),
        "ttl": {f"job:{row.job_id}"},
        "meta": changed["meta"],
    }
    assert changed["meta"]["results:60000"].endswith(":1")
    assert 59_000 < queue.client.pttl(queue.keys.job(row.job_id)) <= 60_000


def test_the_payload_is_gone_with_the_end(queue):
    (row,) = active(queue, body=bytes(50_000))
    complete(queue, W1, [completion(row)])
    assert queue.client.strlen(queue.keys.job(row.job_id)) < 100


def test_without_a_time_to_live_nothing_stays(queue):
    (row,) = active(queue)
    with changes(queue) as changed:
        assert complete(queue, W1, [completion(row, ttl_ms=0)]) == [Verdict.ACCEPTED]
    assert changed == {"active": None, f"hand:{W1}": None, f"job:{row.job_id}": None}


def test_saying_it_again_is_accepted_and_changes_nothing(queue):
    (row,) = active(queue)
    complete(queue, W1, [completion(row)])
    with changes(queue) as changed:
        assert complete(queue, W1, [completion(row, ttl_ms=1)]) == [Verdict.ACCEPTED]
    assert changed == {}


def test_saying_it_again_when_nothing_was_kept_finds_no_job(queue):
    (row,) = active(queue)
    complete(queue, W1, [completion(row, ttl_ms=0)])
    with changes(queue) as changed:
        assert complete(queue, W1, [completion(row, ttl_ms=0)]) == [Verdict.MISSING]
    assert changed == {}


def test_the_same_job_twice_in_one_call_ends_once(queue):
    row, other = active(queue, 2)
    ends = [completion(row), completion(row), completion(other)]
    assert complete(queue, W1, ends) == [Verdict.ACCEPTED] * 3


def test_each_job_of_a_batch_gets_its_own_verdict(queue):
    good, lost = active(queue, 2)
    expire(queue, lost)
    recover(queue)
    unknown = new_job(queue)
    ends = [completion(lost), completion(good), jobs.Completion(unknown.job_id, good.token, 1000, b"a\0b\0c")]
    with changes(queue) as changed:
        assert complete(queue, W1, ends) == [Verdict.STALE, Verdict.ACCEPTED, Verdict.MISSING]
    assert changed.keys() == {"active", f"hand:{W1}", f"job:{good.job_id}", "meta", "ttl"}


def test_a_lease_that_expired_but_was_not_taken_still_counts(queue):
    (row,) = active(queue)
    expire(queue, row)
    assert complete(queue, W1, [completion(row)]) == [Verdict.ACCEPTED]


def test_a_crowd_ends_in_chunks(queue):
    rows = [row for _ in range(3) for row in active(queue, 150)]
    assert complete(queue, W1, [completion(row) for row in rows]) == [Verdict.ACCEPTED] * 450


def test_no_end_needs_no_call(queue):
    assert complete(queue, W1, []) == []


@pytest.mark.parametrize("value", [b"", b"null", b'"a\\u0000b"', b"\0\0", "\N{PILE OF POO}".encode(), bytes(4096)])
def test_a_result_comes_back_byte_for_byte(queue, value):
    (row,) = active(queue)
    complete(queue, W1, [jobs.Completion(row.job_id, row.token, 1000, Done.pack_result("a.b", W1, value))])
    done = jobs.read(queue, row.job_id)
    assert isinstance(done, Done)
    assert done.value == value


def test_an_end_leaves_what_others_hold(queue):
    (mine,) = active(queue)
    (theirs,) = active(queue, holder=W2)
    (waiting,) = enqueued(queue)
    complete(queue, W1, [completion(mine)])
    assert stored(queue, theirs.job_id) == theirs
    assert [row.job_id for row in jobs.claim(queue, W1, nonce(), 5)] == [waiting]
