"""A child of two workers is killed every two seconds while there are more jobs than they can run in that time.

The environment says for how many seconds: EMQ_TEST_STORM=60 for a minute and 5,000 jobs.
"""

import os
import random
import signal
import time
from contextlib import suppress
from dataclasses import dataclass

import pytest

from echomq_django import enqueue_many
from echomq_django.bus.queue import Queue, count
from echomq_django.models import DeadJob
from tests.chaos import ledger, seen, tasks
from tests.chaos.crew import Crew, Worker, state_of
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]

SECONDS = int(os.environ.get("EMQ_TEST_STORM", "10"))
JOBS = 5000 * SECONDS // 60
PAUSE = 2.0


@dataclass(frozen=True)
class Kill:
    """A process that was killed, what it had in its hand, and what of that it was running for certain."""

    pid: int
    threads: int
    held: set[str]
    running: set[str]


@pytest.mark.parametrize("lease", [600.0])  # longer than the storm: only a supervisor can take a job back
def test_a_storm_of_kills_repeats_and_charges_nothing_but_what_was_running_in_a_killed_process(
    crew: Crew, queue: Queue
) -> None:
    chance = random.Random(SECONDS)
    job_ids = enqueue_many(tasks.work, [((seconds, seconds), {}) for seconds in durations(chance)])
    workers = {crew.start("--processes", "2", "--threads", str(threads)).ready(): threads for threads in (1, 3)}

    kills, end = [], time.monotonic() + SECONDS
    while time.monotonic() < end:
        kills.append(until(lambda: strike(workers, queue, chance)))
        time.sleep(PAUSE)
    assert count(queue).pending, "the jobs were done before the storm was over"
    until(lambda: is_empty(queue), within=60 + 2 * SECONDS)

    assert not DeadJob.objects.exists()
    assert all(seen.is_done(queue, job_id) for job_id in job_ids)
    assert ledger.effects(job_ids) == len(job_ids)
    assert ledger.repeated() <= {(job_id, kill.pid) for kill in kills for job_id in kill.held}
    for kill in kills:
        charged_for_what_it_ran(queue, kill)
    assert [worker.stop() for worker in workers] == [0, 0]  # they look for processes, too


def durations(chance: random.Random) -> list[float]:
    """Return how long the jobs take: some are so short that they wait in a hand, none lasts until the next kill."""
    return [chance.uniform(0, 0.01 if number % 10 else 1.8) for number in range(JOBS)]


def strike(workers: dict[Worker, int], queue: Queue, chance: random.Random) -> Kill | None:
    """Stop a random process that has jobs in its hand, look at them, and kill it, or let it go if it runs none."""
    threads = {pid: number for worker, number in workers.items() for pid in worker.pids}
    pids = sorted(seen.hands(queue).keys() & threads)
    if not pids:
        return None
    pid = chance.choice(pids)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        until(lambda: state_of(pid) in ("T", "Z", ""))
        held = seen.hands(queue).get(pid, set())
        if running := held & ledger.unfinished(pid):
            os.kill(pid, signal.SIGKILL)
            return Kill(pid, threads[pid], held, running)
        os.kill(pid, signal.SIGCONT)
    return None


def charged_for_what_it_ran(queue: Queue, kill: Kill) -> None:
    """Of what a killed process had, only what ran is taken for the cause, and charged if nothing else can be it."""
    fates = seen.fates(queue, kill.pid)
    causes = fates["stalled"] | fates["suspected"]
    assert kill.running <= causes <= kill.held
    assert len(causes) <= kill.threads
    assert fates["stalled"] == (causes if len(causes) == 1 else set())


def is_empty(queue: Queue) -> bool:
    """Whether no job is left."""
    counts = count(queue)
    return not (counts.pending or counts.scheduled or counts.active or counts.suspect or counts.dead)
