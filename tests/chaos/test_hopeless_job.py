"""A job that fails at each attempt, in front of many good ones, on a server that is killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from echomq_django import enqueue_many
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import State
from echomq_django.embedded import Valkey
from tests.bus.scenes import make_due, server_ms
from tests.chaos import ledger, seen, tasks
from tests.chaos.crew import Crew
from tests.chaos.waiting import until
from tests.invariants import check

pytest_plugins = ["tests.chaos.fixtures"]


@pytest.fixture(scope="module")
def valkey(server_directory: Path) -> Iterator[Valkey]:
    """A server of its own that forgets nothing when it is killed."""
    with Valkey(server_directory / "hopeless", persist=True) as server:
        yield server


def test_a_job_that_always_fails_holds_no_other_up_and_its_back_off_outlives_worker_and_server(
    crew: Crew, queue: Queue, valkey: Valkey, prefix: str
) -> None:
    """C59, cofin/litestar-queues#105."""
    hopeless = tasks.fail.using(max_failures=1000).enqueue().id
    good = enqueue_many(tasks.work, [((), {})] * 200)
    worker = crew.start()

    has_failed(queue, hopeless, times=1)
    make_due(queue, hopeless)
    seen.done(queue, *good)
    has_failed(queue, hopeless, times=2)
    assert ledger.order_of_starts() == [hopeless, *good, hopeless]
    due = seen.due_at(queue, hopeless)
    assert due - server_ms(queue) > 30_000

    worker.kill()
    valkey.kill()
    valkey.start()
    crew.start()
    seen.done(queue, tasks.work.enqueue().id)
    assert (seen.due_at(queue, hopeless), ledger.starts(hopeless)) == (due, 2)

    make_due(queue, hopeless)
    has_failed(queue, hopeless, times=3)
    assert seen.stalls(queue, hopeless) == 0
    with redis.Redis.from_url(valkey.url) as client:
        check(client, prefix)


def has_failed(queue: Queue, job_id: str, times: int) -> None:
    """Wait until a job has failed so many times and waits for its next try."""
    until(lambda: seen.is_in(queue, job_id, State.SCHEDULED) and seen.row(queue, job_id).failures == times)
