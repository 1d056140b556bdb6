"""Jobs beyond their time limit are ended with their process, whatever they do, and nobody else pays for it."""

import json
from pathlib import Path

import pytest

from echomq_django.bus.queue import Queue
from echomq_django.models import DeadJob
from tests.chaos import ledger, seen, tasks
from tests.chaos.crew import Crew
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]
pytestmark = pytest.mark.parametrize("lease", [60.0])  # longer than any test waits

LIMIT = "echomq_django.exceptions.TimeLimitExceeded"
BEYOND = "is beyond its time limit"
HALF = "has run for half of its time limit"


def died(job_id: str) -> DeadJob:
    until(lambda: DeadJob.objects.filter(job_id=job_id).exists())
    return DeadJob.objects.get(job_id=job_id)


@pytest.mark.parametrize(
    ("task", "how"),
    [
        *((tasks.overrun, how) for how in tasks.OVERRUNS),
        (tasks.overrun_in_coroutine, "waits"),
        (tasks.overrun_in_coroutine, "blocks the loop"),
    ],
    ids=[*tasks.OVERRUNS, "coroutine", "coroutine that blocks the loop"],
)
def test_a_job_beyond_its_limit_fails_whatever_it_does_and_leaves_no_process_behind(
    crew: Crew, queue: Queue, task: tasks.AnyTask, how: str
) -> None:
    job_id = task.enqueue(how).id
    worker = crew.start(EMQ_TEST_SIGNALS="1")

    dead = died(job_id)

    assert (dead.reason, dead.error_class, dead.failures, dead.stalled) == ("timed out", LIMIT, 1, 0)
    assert dead.error_message == "the job ran for longer than its time_limit"
    [child] = ledger.pids(job_id)
    assert child not in worker.pids
    assert (worker.log.count(HALF), worker.log.count(BEYOND)) == (1, 1)
    until(lambda: "task_finished FAILED" in ledger.signals(job_id))
    seen.done(queue, tasks.work.enqueue().id)
    assert worker.stop() == 0  # it looks for processes, too


def test_its_query_ends_with_it_where_the_database_looks_whether_its_client_is_there(crew: Crew) -> None:
    job_id = tasks.overrun.enqueue("waits for the database").id
    worker = crew.start()
    until(ledger.sleeping_sessions)

    assert died(job_id).reason == "timed out"
    until(lambda: not ledger.sleeping_sessions())
    assert worker.stop() == 0


def test_it_is_tried_again_after_its_back_off_and_never_while_it_still_runs(crew: Crew, queue: Queue) -> None:
    job_id = tasks.overrun.using(max_failures=2, backoff=0).enqueue("swallows everything").id
    crew.start("--processes", "2")

    [end] = seen.done(queue, job_id)

    assert json.loads(end.value) == "over"
    assert (end.attempts, seen.events(queue, "retried", job_id), seen.stalls(queue, job_id)) == (2, 1, 0)


def test_its_neighbours_may_finish_within_the_margin_or_start_again_without_a_stall(
    crew: Crew, queue: Queue, gate: Path, tmp_path: Path
) -> None:
    never = tmp_path / "never"
    quick, slow = tasks.hold.enqueue(str(gate)).id, tasks.hold.enqueue(str(never)).id
    overdue = tasks.overrun.enqueue("sleeps").id
    worker = crew.start("--threads", "3", "--grace", "2")
    until(lambda: ledger.starts(overdue))
    waiting = tasks.work.enqueue().id

    worker.logged("its other jobs have 2 s to finish")
    seen.done(queue, waiting)
    [child] = ledger.pids(overdue)
    assert child in worker.pids
    assert ledger.pids(waiting) != [child]
    gate.touch()

    assert died(overdue).reason == "timed out"
    assert [end.attempts for end in seen.done(queue, quick, slow)] == [1, 2]
    assert [seen.stalls(queue, one) for one in (quick, slow)] == [0, 0]
    assert worker.stop() == 0


def test_what_ends_beyond_its_limit_while_its_neighbours_have_time_has_ended_well(
    crew: Crew, queue: Queue, gate: Path, tmp_path: Path
) -> None:
    last = tmp_path / "last"
    late = tasks.hold.using(time_limit=0.5).enqueue(str(gate)).id
    neighbour = tasks.hold.enqueue(str(last)).id
    worker = crew.start("--threads", "2")
    until(lambda: ledger.starts(late) and ledger.starts(neighbour))

    worker.logged(BEYOND)
    gate.touch()
    seen.done(queue, late)
    last.touch()

    assert [end.attempts for end in seen.done(queue, late, neighbour)] == [1, 1]
    assert ledger.pids(late) == ledger.pids(neighbour)
    assert worker.stop() == 0


def test_the_limit_of_a_call_comes_before_that_of_its_queue(
    crew: Crew, queue: Queue, gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMQ_TEST_OPTIONS", json.dumps({"lease": 60, "queues": {"default": {"time_limit": 0.5}}}))
    without = tasks.hold.using(time_limit=None).enqueue(str(gate)).id
    limited = tasks.hold.using(max_failures=1).enqueue(str(gate)).id
    crew.start("--processes", "2")

    assert died(limited).reason == "timed out"
    gate.touch()

    [end] = seen.done(queue, without)
    assert end.attempts == 1


def test_a_job_whose_task_can_not_be_asked_what_its_failure_means_is_charged_a_stall(crew: Crew, queue: Queue) -> None:
    job_id = tasks.overrun_and_tell_nobody.enqueue().id
    worker = crew.start()

    dead = died(job_id)

    assert (dead.reason, dead.stalled, dead.failures, ledger.starts(job_id)) == ("stalled", 1, 0, 1)
    assert worker.logged("died (exit code 9) while running nothing").stop() == 0
