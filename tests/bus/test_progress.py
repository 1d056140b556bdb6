"""How far a job is and what it says, for whoever looks; only its holder may tell."""

import pytest

from echomq_django.bus import jobs
from echomq_django.bus.jobs import MAX_LINE, MAX_LINES
from echomq_django.bus.recovery import recover
from echomq_django.bus.row import Token
from tests.bus.scenes import W1, active, completion, enqueued, expire, new_job, release
from tests.bus.view import changes


def progress(queue, row, **news):
    return jobs.progress(queue, row.job_id, row.token, **news)


def test_how_far_a_job_is_replaces_what_was_said_before(queue):
    (row,) = active(queue)
    assert progress(queue, row, done=(1, 10))
    with changes(queue) as changed:
        assert progress(queue, row, done=(2.5, 10))
    assert changed == {f"progress:{row.job_id}": b"2.5\x0010"}


@pytest.mark.parametrize(
    ("done", "said"),
    [((1, 2), b"1\x002"), ((1_234_567, 12_345_678), b"1234567\x0012345678"), ((0.1, 0.3), b"0.1\x000.3")],
)
def test_numbers_are_kept_as_they_are(queue, done, said):
    (row,) = active(queue)
    progress(queue, row, done=done)
    assert queue.client.get(queue.keys.progress(row.job_id)) == said


def test_lines_are_kept_in_their_order(queue):
    (row,) = active(queue)
    for line in ("one", "two", "Zoë\0"):
        progress(queue, row, line=line)
    lines = queue.client.lrange(queue.keys.log(row.job_id), 0, -1)
    assert [line.decode() for line in lines] == ["one", "two", "Zoë\0"]


def test_only_the_last_lines_are_kept_and_long_ones_are_cut(queue):
    (row,) = active(queue)
    for number in range(MAX_LINES + 5):
        progress(queue, row, line=f"{number} " + "x" * MAX_LINE)
    lines = queue.client.lrange(queue.keys.log(row.job_id), 0, -1)
    assert len(lines) == MAX_LINES
    assert (lines[0][:3], lines[-1][:4]) == (b"5 x", b"204 ")
    assert {len(line) for line in lines} == {MAX_LINE}


def test_both_are_gone_some_day(queue):
    (row,) = active(queue)
    with changes(queue) as changed:
        progress(queue, row, done=(1, 2), line="half")
    assert changed["ttl"] == {f"progress:{row.job_id}", f"log:{row.job_id}"}
    jobs.complete(queue, W1, [completion(row)])
    assert queue.client.exists(queue.keys.progress(row.job_id), queue.keys.log(row.job_id)) == 2


def test_news_say_nothing_about_the_lease(queue):
    (row,) = active(queue)
    with changes(queue) as changed:
        progress(queue, row, done=(1, 2), line="half")
    assert changed.keys() == {f"progress:{row.job_id}", f"log:{row.job_id}", "ttl"}


def lost(queue):
    (row,) = active(queue)
    expire(queue, row)
    recover(queue)
    return row


def given_back(queue):
    (row,) = active(queue)
    jobs.release(queue, W1, [release(row)])
    return row


def ended(queue):
    (row,) = active(queue)
    jobs.complete(queue, W1, [completion(row)])
    return row


@pytest.mark.parametrize("arrange", [lost, given_back, ended])
def test_a_holder_that_lost_its_lease_is_refused(queue, arrange):
    row = arrange(queue)
    with changes(queue) as changed:
        assert not progress(queue, row, done=(1, 2), line="late")
    assert changed == {}


def test_nobody_speaks_for_a_job_that_waits_or_was_never_there(queue):
    for job_id in (*enqueued(queue), new_job(queue).job_id):
        assert not jobs.progress(queue, job_id, Token(0, bytes(8)), done=(1, 2))
