"""However many jobs end, the results that are kept are bounded, and those that made room are counted."""

from echomq_django.bus import jobs
from echomq_django.bus.jobs import Verdict
from echomq_django.bus.queue import count
from echomq_django.bus.row import Done
from tests.bus.scenes import W1, active, completion, server_ms
from tests.bus.view import changes

DAY = 86_400_000


def ended(queue, number, *, ttl_ms=DAY, max_results=3):
    """End jobs and return how long each result stays."""
    rows = active(queue, number)
    ends = [completion(row, ttl_ms) for row in rows]
    assert jobs.complete(queue, W1, ends, max_results=max_results) == [Verdict.ACCEPTED] * number
    return [queue.client.pttl(queue.keys.job(row.job_id)) for row in rows]


def briefly(ttls):
    return [0 < ttl <= 10_000 for ttl in ttls]


def test_results_beyond_the_bound_are_kept_for_seconds_only(queue):
    assert briefly(ended(queue, 5)).count(True) == 2
    assert count(queue).forgotten_early == 2


def test_the_bound_holds_over_many_calls(queue):
    assert [briefly(ended(queue, 1)) for _ in range(5)] == [[False]] * 3 + [[True]] * 2
    assert count(queue).forgotten_early == 2


def test_results_of_an_older_time_do_not_count(queue):
    ended(queue, 3)
    window = server_ms(queue) // DAY - 1
    queue.client.hset(queue.keys.meta, f"results:{DAY}", f"{window}:3")
    assert briefly(ended(queue, 1)) == [False]


def test_a_result_that_is_forgotten_early_can_still_be_read_for_a_while(queue):
    (row,) = active(queue)
    jobs.complete(queue, W1, [completion(row, DAY)], max_results=0)
    assert isinstance(jobs.read(queue, row.job_id), Done)


def test_what_keeps_no_result_or_a_brief_one_is_not_counted(queue):
    for ttl_ms in (0, 1000, 10_000):
        ended(queue, 2, ttl_ms=ttl_ms, max_results=0)
    assert count(queue).forgotten_early == 0


def test_an_end_said_again_is_not_counted_twice(queue):
    (row,) = active(queue)
    jobs.complete(queue, W1, [completion(row, DAY)], max_results=0)
    with changes(queue) as changed:
        jobs.complete(queue, W1, [completion(row, DAY)], max_results=0)
    assert changed == {}


def test_results_with_different_times_to_live_are_bounded_each(queue):
    ttls = [ended(queue, 1, ttl_ms=ttl_ms)[0] for ttl_ms in (DAY, DAY // 2) * 4]
    assert briefly(ttls) == [False] * 6 + [True] * 2
    assert count(queue).forgotten_early == 2
