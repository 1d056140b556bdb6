"""A worker is stopped for longer than its leases, others take its jobs over, and then it wakes up."""

import signal
import time
from pathlib import Path

from echomq_django import enqueue_many
from echomq_django.bus import jobs
from echomq_django.bus.jobs import Verdict
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import State
from echomq_django.worker.processes import holder_name
from tests.bus.scenes import completion
from tests.chaos import ledger, seen, tasks
from tests.chaos.crew import Crew
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]

STANDSTILL = 30.0  # that a claiming loop may have


def test_whatever_a_thawed_worker_says_of_jobs_that_others_took_over_is_refused(
    crew: Crew, queue: Queue, tmp_path: Path
) -> None:
    thaw, later, end, never = (tmp_path / name for name in ("thaw", "later", "end", "never"))
    returning = tasks.hold_each_time.enqueue(str(thaw), str(later)).id
    raising = tasks.hold_and_raise.enqueue(str(thaw), str(later)).id
    lasting = tasks.hold_each_time.enqueue(str(end), str(never), str(end)).id
    frozen = crew.start("--threads", "3")
    until(lambda: all(map(ledger.starts, (returning, raising, lasting))))
    assert sorted(seen.in_hand(queue, frozen.pids)) == sorted([returning, raising, lasting])

    frozen.tell_all(signal.SIGSTOP)
    until(lambda: frozen.is_frozen)
    heir = crew.start("--threads", "3")
    until(lambda: all(ledger.starts(one) == 2 for one in (returning, raising, lasting)))
    thaw.touch()
    frozen.tell_all(signal.SIGCONT)

    frozen.logged("its late Completion is refused").logged("its late Retry is refused")
    assert sorted(seen.in_hand(queue, heir.pids)) == sorted([returning, raising, lasting])
    assert seen.row(queue, raising).failures == 0
    later.touch()
    assert [end.attempts for end in seen.done(queue, returning, raising)] == [2, 2]

    heir.kill()  # were the thawed worker still able to renew, nobody would ever run this one again
    until(lambda: ledger.starts(lasting) == 3)
    end.touch()
    assert [end.attempts for end in seen.done(queue, lasting)] == [3]
    assert [ledger.starts(one) for one in (returning, raising)] == [2, 2]


def test_a_thawed_worker_does_not_start_what_it_had_in_hand_and_others_have_run(crew: Crew, queue: Queue) -> None:
    frozen = crew.start()
    seen.done(queue, *enqueue_many(tasks.nothing, [((), {})] * 60))  # so short that it takes some in advance
    freezing, *followers = enqueue_many(tasks.freeze, [((stop,), {}) for stop in (True, False, False, False)])
    until(lambda: frozen.is_frozen)
    held = seen.in_hand(queue, frozen.pids)
    assert set(held) >= {freezing, followers[0]}

    crew.start()
    seen.done(queue, freezing, *followers)
    frozen.tell_all(signal.SIGCONT)

    frozen.logged("its late Completion is refused").logged("its late Release is refused", len(held) - 1)
    assert ledger.starts(freezing) == 2
    assert [ledger.starts(one) for one in followers] == [1] * len(followers)
    assert [seen.stalls(queue, one) for one in followers] == [0] * len(followers)


def test_a_process_with_the_name_of_a_dead_one_can_neither_keep_nor_end_its_job(
    crew: Crew, queue: Queue, gate: Path
) -> None:
    """C09, procrastinate-org/procrastinate#1518."""
    held = tasks.hold.enqueue(str(gate)).id
    crew.start()
    until(lambda: ledger.starts(held))
    living = seen.row(queue, held).holder
    dead = holder_name(ledger.pids(held)[0], chance="dead")
    orphan = tasks.work.enqueue().id
    [old] = jobs.claim(queue, dead, jobs.new_nonce(), 1)
    assert (old.job_id, old.holder) == (orphan, dead)

    assert orphan not in jobs.extend(queue, living)
    until(lambda: seen.stalls(queue, orphan) == 1)
    assert jobs.complete(queue, dead, [completion(old)]) == [Verdict.STALE]
    gate.touch()

    [end] = seen.done(queue, orphan)
    assert (end.holder, end.attempts, ledger.starts(orphan)) == (living, 2, 1)
    seen.done(queue, held)


def test_a_process_whose_claiming_loop_hangs_is_replaced_as_soon_as_it_runs_nothing_inside_its_limit(
    crew: Crew, queue: Queue, gate: Path, tmp_path: Path
) -> None:
    hang = tmp_path / "hang"
    hang.touch()
    running = tasks.hold.enqueue(str(gate)).id
    worker = crew.start("--threads", "2", EMQ_TEST_HANG=str(hang))
    [child] = until(lambda: ledger.pids(running))
    tasks.work.enqueue()
    until(lambda: not hang.exists())
    waiting, hung_at = tasks.work.enqueue().id, time.monotonic()

    until(lambda: time.monotonic() > hung_at + STANDSTILL + 1, within=2 * STANDSTILL)
    assert child in worker.pids
    assert seen.is_in(queue, waiting, State.PENDING)
    gate.touch()
    worker.logged("claims nothing and runs nothing: it is replaced")

    assert [end.attempts for end in seen.done(queue, running, waiting)] == [2, 1]
    assert [seen.stalls(queue, one) for one in (running, waiting)] == [0, 0]
    assert child not in {*worker.pids, *ledger.pids(waiting)}
    assert worker.stop() == 0
