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
    seen.done(queue, *good)

    assert seen.is_in(queue, hopeless, State.SCHEDULED)
    assert ledger.starts(hopeless) == 1
    due = seen.due_at(queue, hopeless)

    worker.kill()
    valkey.kill()
    valkey.start()
    worker = crew.start()
    seen.done(queue, tasks.work.enqueue().id)
    assert (seen.due_at(queue, hopeless), ledger.starts(hopeless)) == (due, 1)

    make_due(queue, hopeless)
    until(lambda: ledger.starts(hopeless) == 2 and seen.is_in(queue, hopeless, State.SCHEDULED))
    row = seen.row(queue, hopeless)
    assert (row.failures, row.stalled) == (2, 0)
    assert seen.due_at(queue, hopeless) - server_ms(queue) > 30_000
    with redis.Redis.from_url(valkey.url) as client:
        check(client, prefix)
