"""The link between a client and the server loses replies: what was said has happened, and nobody knows."""

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings

from echomq_django import enqueue_many
from echomq_django.bus import jobs
from echomq_django.bus.message import Message
from echomq_django.bus.queue import Queue
from echomq_django.bus.scripts import Script
from echomq_django.models import DeadJob
from tests.bus import scenes
from tests.chaos import ledger, seen, tasks
from tests.chaos.crew import Crew
from tests.chaos.proxy import Proxy, redis_url
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]

A_MINUTE = pytest.mark.parametrize("lease", [60.0])  # longer than any test waits
OF_A_WORKER = ("jobs/claim", "jobs/complete", "jobs/retry", "jobs/die", "jobs/extend")
OF_A_SUPERVISOR = ("recovery/recover", "schedule/promote")
MORE_THAN_TEN_SECONDS = 20  # tries of a worker that waits for a second at most, and takes stock each ten
GHOST = "host:1:gone"  # a holder of whom nothing is left


def command(name: str) -> bytes:
    """Return what a call of a script can be told by."""
    return Script(name).sha.encode()


@A_MINUTE
def test_jobs_whose_claim_was_never_answered_wait_for_no_lease_and_are_charged_no_stall(
    crew: Crew, queue: Queue, to_server: Proxy
) -> None:
    """C15, redis/redis-py#261."""
    job_ids = enqueue_many(tasks.work, [((), {})] * 2000)
    claim = command("jobs/claim")
    to_server.lose_replies(claim, every=50)
    link = {"EMQ_TEST_REDIS_URL": redis_url(to_server), "EMQ_TEST_CONN_MAX_AGE": "600"}
    workers = [crew.start("--threads", "2", **link) for _ in range(2)]

    ends = seen.done(queue, *job_ids)

    assert to_server.lost[claim] >= 3
    assert {end.attempts for end in ends} == {1}
    assert ledger.all_starts() == Counter(job_ids)
    assert not seen.happened(queue, "stalled")
    assert seen.active(queue) == {}
    assert [worker.stop() for worker in workers] == [0, 0]


@A_MINUTE
def test_a_lease_that_a_child_knows_nothing_of_is_handed_back(crew: Crew, queue: Queue, gate: Path) -> None:
    running = tasks.hold.enqueue(str(gate)).id
    worker = crew.start()
    until(lambda: ledger.starts(running))
    stray = tasks.work.enqueue().id
    [row] = jobs.claim(queue, seen.row(queue, running).holder, jobs.new_nonce(), 1)
    assert row.job_id == stray

    worker.logged("handing back 1 jobs that were held by nobody")
    gate.touch()

    seen.done(queue, running, stray)
    assert (ledger.starts(stray), seen.stalls(queue, stray), ledger.starts(running)) == (1, 0, 1)


@pytest.mark.parametrize("lease", [1.5])  # so that it is renewed each half second
def test_whatever_a_worker_says_and_hears_no_answer_to_counts_once(
    crew: Crew, queue: Queue, to_server: Proxy, gate: Path
) -> None:
    body = Message(tasks.work.module_path, b"[[],{}]").pack()
    orphans = [row.job_id for row in scenes.active(queue, 3, holder=GHOST, body=body, lease_ms=1000)]
    good = enqueue_many(tasks.work, [((), {})] * 12)
    failing = enqueue_many(tasks.fail_once, [((), {})] * 6)
    hopeless = enqueue_many(tasks.fail_at_once, [((), {})] * 6)
    delayed = [tasks.work.using(run_after=timezone.now() + timedelta(seconds=1)).enqueue().id for _ in range(3)]
    lasting = tasks.hold.enqueue(str(gate)).id
    commands = list(map(command, OF_A_WORKER + OF_A_SUPERVISOR))
    to_server.lose_replies(*commands, every=3)
    worker = crew.start("--threads", "2", EMQ_TEST_REDIS_URL=redis_url(to_server))

    until(lambda: all(to_server.lost[one] for one in commands))
    gate.touch()
    once, twice = [*orphans, *good, *delayed, lasting], failing
    seen.done(queue, *once, *twice)
    until(lambda: DeadJob.objects.count() == len(hopeless))

    assert ledger.all_starts() == Counter(once) + Counter(twice * 2)
    assert seen.happened(queue, "stalled") == Counter(orphans)
    assert seen.happened(queue, "retried") == Counter(failing)
    assert Counter(DeadJob.objects.values_list("job_id", flat=True)) == Counter(hopeless)
    assert set(DeadJob.objects.values_list("failures", flat=True)) == {1}
    assert "is refused" not in worker.log
    assert "held by nobody" not in worker.log
    assert worker.stop() == 0


@A_MINUTE
def test_an_end_that_leaves_no_trace_and_was_never_answered_is_signalled_all_the_same(
    crew: Crew, queue: Queue, to_server: Proxy
) -> None:
    to_server.lose_replies(command("jobs/complete"), every=2)
    worker = crew.start(EMQ_TEST_REDIS_URL=redis_url(to_server), EMQ_TEST_SIGNALS="1")
    job_id = tasks.work.using(result_ttl=0).enqueue().id

    until(lambda: ledger.signals(job_id) == ["task_started RUNNING", "task_finished SUCCESSFUL"])
    assert jobs.read(queue, job_id) is None
    assert to_server.lost.total() == 1
    assert "is refused" not in worker.log


@A_MINUTE
def test_a_claim_that_is_never_answered_is_said_again_for_as_long_as_it_takes(
    crew: Crew, queue: Queue, to_server: Proxy
) -> None:
    claim = command("jobs/claim")
    to_server.lose_replies(claim, every=1)
    job_id = tasks.work.enqueue().id
    worker = crew.start(EMQ_TEST_REDIS_URL=redis_url(to_server))
    until(lambda: to_server.lost[claim] >= MORE_THAN_TEN_SECONDS)
    to_server.heal()

    [end] = seen.done(queue, job_id)
    assert (end.attempts, seen.stalls(queue, job_id)) == (1, 0)
    assert "held by nobody" not in worker.log


@A_MINUTE
def test_an_enqueue_that_was_never_answered_is_said_again_and_makes_one_job(
    crew: Crew, queue: Queue, emq: Settings, to_server: Proxy
) -> None:
    emq.CACHES = {**emq.CACHES, "emq": {**emq.CACHES["emq"], "LOCATION": redis_url(to_server)}}
    enqueue = command("jobs/enqueue")
    to_server.lose_replies(enqueue, every=3)

    job_ids = [tasks.work.enqueue().id for _ in range(30)]
    crew.start()

    seen.done(queue, *job_ids)
    assert to_server.lost[enqueue] >= 10
    assert ledger.all_starts() == Counter(job_ids)
