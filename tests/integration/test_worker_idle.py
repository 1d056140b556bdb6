"""What a worker asks of the server while it has nothing to do, and that nobody has to wait for it because of that."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice, pairwise
from pathlib import Path

import pytest
from django.utils import timezone

from echomq_django.bus.queue import Queue
from echomq_django.bus.scripts import ROOT, Script
from echomq_django.models import DeadJob
from tests.chaos import ledger, seen, tasks
from tests.chaos.crew import Crew
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]
pytestmark = pytest.mark.parametrize("lease", [60.0])

REST = 5000
SCRIPTS = {Script(name).sha: name for name in (str(path.relative_to(ROOT))[:-4] for path in ROOT.glob("[!l]*/*.lua"))}


def next_pass(queue: Queue, former: float) -> float:
    """Wait for a pass over a queue after the `former`, and return when it was, in server milliseconds."""
    return former + until(lambda: float(queue.client.hget(queue.keys.meta, "last_pass") or 0) - former)


def passes(queue: Queue) -> Iterator[float]:
    """Yield when each pass over a queue was."""
    last = 0.0
    while last := next_pass(queue, last):
        yield last


def rested(queue: Queue) -> None:
    """Wait until a pass has just ended a rest."""
    assert any(later - former > REST - 500 for former, later in pairwise(passes(queue)))


def asked(queue: Queue, until_asked: str, times: int) -> Counter[str]:
    """Count what is asked of the server about `queue` until something has been asked so many times."""
    found: Counter[str] = Counter()
    with queue.client.monitor() as monitor:
        while found[until_asked] < times:
            told = monitor.next_command()
            if told["client_type"] != "lua" and queue.keys.base in told["command"]:
                words = told["command"].split(" ")
                found[SCRIPTS.get(words[1], words[0])] += 1
    return found


def test_a_worker_with_nothing_to_do_asks_about_a_queue_once_in_a_rest_and_holds_one_wait(
    crew: Crew, queue: Queue
) -> None:
    crew.start()
    rested(queue)
    counts = asked(queue, "recovery/recover", 2)
    rare = counts - Counter({"recovery/recover": 2, "BLPOP": 6})
    assert set(rare) <= {"jobs/extend", "jobs/claim", "schedule/promote", "dead/unmirrored", "LRANGE"}
    assert max(rare.values(), default=0) <= 2


def test_passes_are_a_beat_apart_while_a_job_runs_and_a_rest_apart_when_it_is_over(
    crew: Crew, queue: Queue, gate: Path
) -> None:
    crew.start()
    rested(queue)
    job_id = tasks.hold.enqueue(str(gate)).id
    until(lambda: ledger.starts(job_id))
    first, *_, last = islice(passes(queue), 5)
    assert last - first < 2 * REST
    gate.touch()
    seen.done(queue, job_id)
    rested(queue)


def test_a_job_that_dies_in_a_worker_that_has_rested_is_in_the_database_before_the_next_rest_is_over(
    crew: Crew, queue: Queue
) -> None:
    crew.start()
    rested(queue)
    job_id = tasks.fail_at_once.enqueue().id
    until(lambda: DeadJob.objects.filter(job_id=job_id).exists(), within=REST / 1000 - 1)


def test_a_delayed_job_starts_in_time_in_a_worker_that_has_rested(crew: Crew, queue: Queue) -> None:
    crew.start("--processes", "2")
    rested(queue)
    job_id = tasks.work.using(run_after=timezone.now() + timedelta(seconds=3)).enqueue().id
    due = seen.due_at(queue, job_id)
    [end] = seen.done(queue, job_id)
    assert 0 <= end.started_at - due < 1000
