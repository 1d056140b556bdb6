"""Tasks with `isolate=True`: whatever their jobs do to their process, no other job runs in it."""

import signal
from pathlib import Path

import pytest

from echomq_django import enqueue_many
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import State
from echomq_django.models import DeadJob
from tests.chaos import ledger, seen, tasks
from tests.chaos.crew import Crew
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]

# Longer than any test waits, so that nothing comes back by the end of a lease.
pytestmark = pytest.mark.parametrize("lease", [60.0])

BEAT_MS = 1000
isolated_work = tasks.work.using(isolate=True)
isolated_hold = tasks.hold.using(isolate=True)


def test_a_job_that_kills_its_process_dies_alone_and_nothing_beside_it_starts_again(
    crew: Crew, queue: Queue, gate: Path, tmp_path: Path
) -> None:
    neighbours = [tasks.hold.enqueue(str(gate)).id for _ in range(4)]
    worker = crew.start("--threads", "4")
    until(lambda: all(map(ledger.starts, neighbours)))
    [child] = {pid for one in neighbours for pid in ledger.pids(one)}
    poison = tasks.poison.using(isolate=True).enqueue(str(tmp_path / "antidote"), company=0).id

    dead = until(lambda: DeadJob.objects.filter(job_id=poison).first())
    gate.touch()
    ends = seen.done(queue, *neighbours)

    assert (dead.reason, dead.stalled, dead.isolate) == ("stalled", 3, True)
    killed = ledger.pids(poison)
    assert len({*killed, child}) == 4
    assert [end.attempts for end in ends] == [1, 1, 1, 1]
    assert seen.events(queue, "suspected", poison) == 0
    assert child in worker.pids


def test_no_process_runs_an_isolated_job_and_another_one(crew: Crew, queue: Queue) -> None:
    others = enqueue_many(tasks.work, [((0.0, 0.01), {})] * 40)
    isolated = enqueue_many(isolated_work, [((), {})] * 8)
    crew.start("--processes", "2", "--threads", "2")

    seen.done(queue, *others, *isolated)

    alone = [pid for one in isolated for pid in ledger.pids(one)]
    assert len(set(alone)) == len(alone) == 8
    assert not {*alone} & {pid for one in others for pid in ledger.pids(one)}


def test_each_try_has_a_process_of_its_own(crew: Crew, queue: Queue) -> None:
    isolated, other = tasks.fail_once.using(isolate=True).enqueue().id, tasks.work.enqueue().id
    crew.start()

    [end, _] = seen.done(queue, isolated, other)

    assert end.attempts == 2
    assert len({*ledger.pids(isolated), *ledger.pids(other)}) == 3


def test_a_coroutine_is_run_alone_too(crew: Crew, queue: Queue) -> None:
    isolated = enqueue_many(tasks.sleep_and_work.using(isolate=True), [((), {})] * 2)
    crew.start("--threads", "4")

    seen.done(queue, *isolated)

    assert len({pid for one in isolated for pid in ledger.pids(one)}) == 2


def test_queues_have_their_turns(crew: Crew, queue: Queue) -> None:
    many = enqueue_many(isolated_work, [((), {})] * 6)
    one = isolated_work.using(queue_name="emails").enqueue().id

    assert crew.start("--queues", "default,emails", "--burst").exit_code() == 0

    assert one in ledger.order_of_starts()[:3]
    assert len(ledger.order_of_starts()) == len(many) + 1


def test_while_all_threads_of_the_worker_are_busy_they_start_and_none_waits_for_a_beat(
    crew: Crew, queue: Queue, gate: Path
) -> None:
    busy = tasks.hold.enqueue(str(gate)).id
    crew.start()
    until(lambda: ledger.starts(busy))

    ends = seen.done(queue, *enqueue_many(isolated_work, [((), {})] * 6))
    gate.touch()

    assert ends[-1].started_at - ends[0].started_at < 3 * BEAT_MS
    [end] = seen.done(queue, busy)
    assert end.attempts == 1


def test_a_worker_runs_one_at_a_time_and_two_workers_run_two(crew: Crew, queue: Queue, gate: Path) -> None:
    held = [isolated_hold.enqueue(str(gate)).id for _ in range(3)]
    first = crew.start("--processes", "2")
    until(lambda: any(map(ledger.starts, held)))
    seen.beats(queue, 3)
    assert len(seen.active(queue)) == 1

    second = crew.start()
    until(lambda: len(seen.active(queue)) == 2)
    assert [len(seen.in_hand(queue, one.pids)) for one in (first, second)] == [1, 1]
    gate.touch()

    seen.done(queue, *held)
    assert all(ledger.starts(one) == 1 for one in held)


def test_a_job_beyond_its_time_limit_takes_no_other_with_it(crew: Crew, queue: Queue, gate: Path) -> None:
    neighbour = tasks.hold.enqueue(str(gate)).id
    endless = tasks.overrun.using(isolate=True, max_failures=1).enqueue("swallows everything").id
    crew.start("--threads", "2")

    dead = until(lambda: DeadJob.objects.filter(job_id=endless).first())
    gate.touch()

    [end] = seen.done(queue, neighbour)
    assert (dead.reason, end.attempts) == ("timed out", 1)


def test_a_burst_ends_when_no_isolated_job_is_left(crew: Crew, queue: Queue) -> None:
    isolated = enqueue_many(isolated_work, [((), {})] * 5)

    assert crew.start("--burst").exit_code() == 0

    assert all(seen.is_done(queue, one) for one in isolated)


def test_at_a_stop_the_one_that_runs_is_finished_and_the_next_one_stays(crew: Crew, queue: Queue, gate: Path) -> None:
    running, waiting = (isolated_hold.enqueue(str(gate)).id for _ in range(2))
    worker = crew.start()
    until(lambda: ledger.starts(running))

    worker.tell(signal.SIGTERM)
    worker.logged("stopping")
    gate.touch()

    assert worker.exit_code() == 0
    assert seen.is_done(queue, running)
    assert seen.is_in(queue, waiting, State.PENDING)


def test_in_one_process_nothing_is_alone_and_isolated_jobs_are_run_all_the_same(crew: Crew, queue: Queue) -> None:
    isolated = enqueue_many(isolated_work, [((), {})] * 3)
    worker = crew.start("--processes", "0", "--threads", "2")

    seen.done(queue, *isolated)

    assert {pid for one in isolated for pid in ledger.pids(one)} == {worker.pid}
