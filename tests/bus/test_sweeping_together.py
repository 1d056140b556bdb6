"""Many processes take expired leases back at once: each lease is counted once and its job moved once."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from echomq_django.bus.queue import Queue
from echomq_django.bus.recovery import recover
from echomq_django.bus.row import State
from example_project.bot import naive_recovery
from tests.bus.forked import in_children
from tests.bus.scenes import active, expire, stay_awake, stored
from tests.invariants import check

PROCESSES, ROUNDS = 10, 5
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def sweep_together(queue: Queue, one_pass: Callable[[Queue], Any]) -> list[str]:
    """Let `PROCESSES` forked sweepers start at one moment, and return all ids that they say to have taken."""

    def sweep(_: int) -> list[str]:
        taken: list[str] = []
        while stalled := one_pass(queue).stalled:
            taken += stalled
        return taken

    stay_awake(queue)
    return [job_id for answer in in_children(PROCESSES, sweep) for job_id in answer]


def assert_each_counted_and_moved_once(queue: Queue, job_ids: set[str], taken: list[str]) -> None:
    assert Counter(taken) == Counter(dict.fromkeys(job_ids, 1))
    rows = [stored(queue, job_id) for job_id in job_ids]
    assert Counter(row.stalled for row in rows) == {1: len(job_ids)}
    assert {row.state for row in rows} == {State.PENDING}
    assert {name.decode() for name in queue.client.zrange(queue.keys.pending, 0, -1)} == job_ids
    check(queue.client, queue.keys.prefix)


def expired_leases(queue: Queue, number: int) -> set[str]:
    rows = [row for holder in range(10) for row in active(queue, number // 10, holder=f"host.{holder}")]
    expire(queue, *rows)
    return {row.job_id for row in rows}


def test_ten_processes_that_sweep_a_thousand_leases_count_and_move_each_once(queue):
    job_ids = expired_leases(queue, 1000)
    taken = sweep_together(queue, lambda queue: recover(queue, limit=20))
    assert_each_counted_and_moved_once(queue, job_ids, taken)


@pytest.mark.broken_keyspace
def test_the_same_check_finds_out_a_recovery_that_is_not_one_step(queue):
    for _ in range(ROUNDS):
        queue.client.flushdb()
        job_ids = expired_leases(queue, 200)
        taken = sweep_together(queue, lambda queue: naive_recovery.recover(queue, limit=20))
        if any(stored(queue, job_id).stalled != 1 for job_id in job_ids):
            with pytest.raises(AssertionError):
                assert_each_counted_and_moved_once(queue, job_ids, taken)
            return
    pytest.fail(f"a recovery in single commands counted right {ROUNDS} times: this test sees nothing")
