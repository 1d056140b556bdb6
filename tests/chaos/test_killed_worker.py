"""Processes of a worker get SIGKILL while they have jobs in hand."""

import os
import signal
from pathlib import Path

import pytest

from echomq_django import enqueue_many
from echomq_django.bus.queue import Queue
from echomq_django.floor import dead_letters
from echomq_django.models import DeadJob
from tests.chaos import ledger, seen, tasks
from tests.chaos.crew import Crew, Worker
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]

BEAT = 1.0
SLACK = 10.0
A_MINUTE = pytest.mark.parametrize("lease", [60.0])  # longer than any test waits


@pytest.mark.parametrize("second", ["runs already", "starts after"])
def test_a_job_whose_worker_is_killed_after_its_effect_is_redelivered_and_completes(
    crew: Crew, queue: Queue, lease: float, gate: Path, second: str
) -> None:
    """C01, hibiken/asynq#1051."""
    job_id = tasks.hold.enqueue(str(gate)).id
    victim = crew.start()
    until(lambda: ledger.effect(job_id) is not None)
    if second == "runs already":
        crew.start().ready()
    assert seen.in_hand(queue, victim.pids) == [job_id]

    victim.kill()
    if second == "starts after":
        crew.start().ready()

    [end] = seen.done(queue, job_id, within=lease + BEAT + SLACK)
    assert ledger.effects([job_id]) == 1
    assert ledger.starts(job_id) == 2
    assert end.attempts == 2
    assert seen.stalls(queue, job_id) == 1
    assert seen.active(queue) == {}


@A_MINUTE
def test_the_job_of_a_killed_child_comes_back_at_once_and_the_child_is_replaced(
    crew: Crew, queue: Queue, gate: Path
) -> None:
    job_id = tasks.hold.enqueue(str(gate)).id
    worker = crew.start()
    [child] = until(lambda: ledger.pids(job_id))
    assert seen.in_hand(queue, [child]) == [job_id]

    os.kill(child, signal.SIGKILL)

    [end] = seen.done(queue, job_id)
    assert end.attempts == 2
    assert seen.stalls(queue, job_id) == 1
    assert ledger.pids(job_id)[1] in worker.pids - {child}
    assert worker.is_running


@A_MINUTE
def test_children_whose_supervisor_is_killed_finish_what_they_run_and_leave(
    crew: Crew, queue: Queue, gate: Path
) -> None:
    running, waiting = (tasks.hold.enqueue(str(gate)).id for _ in range(2))
    worker = crew.start()
    until(lambda: ledger.starts(running))

    worker.tell(signal.SIGKILL)
    worker.logged("the supervisor is gone")
    gate.touch()

    assert worker.exit_code() == -signal.SIGKILL
    [end] = seen.done(queue, running)
    assert (end.attempts, ledger.starts(running), ledger.starts(waiting)) == (1, 1, 0)
    crew.start()
    [end] = seen.done(queue, waiting)
    assert seen.stalls(queue, waiting) == 0


@A_MINUTE
def test_children_whose_supervisor_is_killed_hand_back_what_outlasts_the_grace_and_leave_nothing_behind(
    crew: Crew, queue: Queue
) -> None:
    job_id = tasks.overrun.using(time_limit=None).enqueue("has forked").id
    worker = crew.start("--grace", "0.5")
    until(lambda: ledger.starts(job_id))

    worker.tell(signal.SIGKILL)
    worker.exit_code()
    crew.start()

    [end] = seen.done(queue, job_id)
    assert (end.attempts, ledger.starts(job_id), seen.stalls(queue, job_id)) == (2, 2, 0)


@A_MINUTE
@pytest.mark.parametrize("company", [20, 99])
def test_a_job_that_kills_its_process_dies_and_none_of_its_neighbours_pays_for_it(
    crew: Crew, queue: Queue, gate: Path, tmp_path: Path, company: int
) -> None:
    """C05, sidekiq/sidekiq#4633."""
    antidote = tmp_path / "antidote"
    neighbours = enqueue_many(tasks.hold, [((str(gate),), {})] * company)
    poison = tasks.poison.enqueue(str(antidote), company).id
    late_comers = enqueue_many(tasks.work, [((0.1, 0.2), {})] * company)
    crew.start("--threads", str(company + 1))

    dead = until(lambda: DeadJob.objects.filter(job_id=poison).first())
    seen.done(queue, *neighbours, *late_comers)

    assert (dead.reason, dead.stalled) == ("stalled", 3)
    assert seen.stalls(queue, poison) == 3
    assert DeadJob.objects.count() == 1
    assert all(seen.events(queue, "suspected", one) for one in neighbours)
    assert not any(seen.stalls(queue, one) for one in (*neighbours, *late_comers))
    assert ledger.effects([*neighbours, *late_comers]) == 2 * company

    antidote.touch()
    assert dead_letters.requeue([dead.pk], "a test") == 1
    seen.done(queue, poison)
    assert ledger.effect(poison) is not None


def test_a_keeper_that_is_killed_again_and_again_does_not_end_the_worker(crew: Crew, queue: Queue, gate: Path) -> None:
    running = tasks.hold.enqueue(str(gate)).id
    worker = crew.start()
    [child] = until(lambda: ledger.pids(running))
    for _ in range(11):
        kill_one(worker, besides={worker.pid, child})
    gate.touch()

    [end] = seen.done(queue, running)
    assert (end.attempts, ledger.starts(running)) == (1, 1)
    dying = tasks.fail_at_once.enqueue().id
    until(lambda: DeadJob.objects.filter(job_id=dying).exists())
    assert worker.stop() == 0


def test_no_job_is_lost_when_one_worker_after_the_other_is_killed(crew: Crew, queue: Queue) -> None:
    job_ids = enqueue_many(tasks.work, [((0.02, 0.05), {})] * 200)
    for _ in range(5):
        kill_with_jobs_in_hand(crew.start("--threads", "2"), queue)
    assert ledger.effects(job_ids) < len(job_ids)

    crew.start("--threads", "4")
    seen.done(queue, *job_ids)

    assert ledger.effects(job_ids) == len(job_ids)
    assert sum(ledger.starts(job_id) for job_id in job_ids) > len(job_ids)
    assert seen.active(queue) == {}


def kill_one(worker: Worker, besides: set[int]) -> None:
    """Kill the one process of a worker that is not among `besides`, and wait until it is gone."""
    [pid] = until(lambda: worker.pids - besides)
    os.kill(pid, signal.SIGKILL)
    until(lambda: pid not in worker.pids)


def kill_with_jobs_in_hand(worker: Worker, queue: Queue) -> None:
    """Kill a worker that is in full swing."""
    until(lambda: sum(map(ledger.started_by, worker.pids)) >= 10)
    until(lambda: seen.in_hand(queue, worker.pids))
    worker.kill()
