"""Jobs that run for many times the length of their lease."""

from echomq_django.bus.queue import Queue
from tests.bus.scenes import server_ms
from tests.chaos import ledger, seen, tasks
from tests.chaos.crew import Crew
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]


def test_a_job_of_ten_leases_starts_once_while_idle_workers_watch_and_others_flow(
    crew: Crew, queue: Queue, lease: float
) -> None:
    """C03, celery/celery#5935."""
    long = tasks.work.enqueue(10 * lease, 10 * lease).id
    crew.start()
    until(lambda: ledger.starts(long))
    for idle in [crew.start() for _ in range(3)]:
        idle.ready()

    deadlines, others = set(), []
    while deadline := seen.active(queue).get(long):
        assert deadline > server_ms(queue), "the lease is not renewed in time"
        deadlines.add(deadline)
        others.append(tasks.work.enqueue().id)
        seen.done(queue, others[-1])

    [end] = seen.done(queue, long)
    assert (end.attempts, ledger.starts(long)) == (1, 1)
    assert len(deadlines) >= 10
    assert ledger.effects(others) == len(others) >= 10


def test_a_job_that_holds_the_interpreter_lock_for_four_leases_starts_once(
    crew: Crew, queue: Queue, lease: float
) -> None:
    """C03, celery/celery#5935."""
    long = tasks.hold_interpreter_lock.enqueue(4 * lease).id
    crew.start("--threads", "2")
    until(lambda: ledger.starts(long))
    other = tasks.work.enqueue().id
    crew.start()

    seen.done(queue, other)
    assert long in seen.active(queue)
    [end] = seen.done(queue, long)
    assert (end.attempts, ledger.starts(long)) == (1, 1)


def test_a_coroutine_that_blocks_the_loop_for_four_leases_costs_no_coroutine_and_no_thread_its_lease(
    crew: Crew, queue: Queue, lease: float
) -> None:
    """C03, celery/celery#5935."""
    asleep = [tasks.sleep_and_work.enqueue(2 * lease).id for _ in range(3)]
    crew.start("--threads", "7")
    until(lambda: all(map(ledger.starts, asleep)))
    blocking = tasks.block_loop.enqueue(4 * lease).id
    until(lambda: ledger.starts(blocking))
    behind = tasks.sleep_and_work.enqueue().id
    in_threads = [tasks.work.enqueue(seconds, seconds).id for seconds in (0.0, 2 * lease)]
    until(lambda: all(map(ledger.starts, in_threads)) and behind in seen.active(queue))
    crew.start().ready()

    seen.done(queue, *in_threads)
    assert seen.active(queue).keys() == {*asleep, blocking, behind}
    ends = seen.done(queue, *asleep, blocking, behind, *in_threads)

    assert {end.attempts for end in ends} == {1}
    assert {ledger.starts(one) for one in (*asleep, blocking, behind, *in_threads)} == {1}
