"""A job that waited in a hand starts only while it is known to be still there."""

import pytest
import redis

from echomq_django.bus import jobs
from echomq_django.bus.jobs import Completion, Release
from echomq_django.bus.queue import Queue, open_queue
from echomq_django.bus.recovery import recover
from echomq_django.worker.board import boottime
from echomq_django.worker.executor import Executor
from echomq_django.worker.hands import End, Held
from tests.bus import scenes
from tests.chaos import ledger, tasks

pytest_plugins = ["tests.chaos.fixtures"]

FROZEN, OTHER = "host:1:one", "host:2:two"


def end_of(held: Held) -> End:
    ended = Executor("default", FROZEN).run(held, pytest.fail)
    assert ended is not None
    return ended.end


@pytest.fixture
def held(queue: Queue) -> Held:
    """A job in the hand of a process that was stopped before it started it, and for longer than its lease."""
    open_queue(queue, 2_000)
    tasks.work.enqueue()
    [row] = jobs.claim(queue, FROZEN, jobs.new_nonce(), 1, starting=0)
    return Held(queue, 0, row, renewed_until=boottime() - 1, claimed_at=boottime() - 3)


def test_a_job_that_is_still_held_starts(held: Held) -> None:
    end = end_of(held)

    assert isinstance(end, Completion)
    assert ledger.starts(held.row.job_id) == 1
    assert held.renewed_until > boottime()


def test_a_job_that_another_holder_has_does_not_start(
    queue: Queue, held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    scenes.expire(queue, held.row)
    recover(queue)
    [row] = jobs.claim(queue, OTHER, jobs.new_nonce(), 1)
    assert row.job_id == held.row.job_id

    end = end_of(held)

    assert isinstance(end, Release)
    assert ledger.starts(held.row.job_id) == 0
    assert f"job {held.row.job_id} does not start here: it was taken over" in caplog.text


def test_a_job_that_the_same_process_has_claimed_anew_does_not_start_by_its_old_lease(queue: Queue, held: Held) -> None:
    scenes.expire(queue, held.row)
    recover(queue)
    [row] = jobs.claim(queue, FROZEN, jobs.new_nonce(), 1)
    assert row.job_id == held.row.job_id

    end = end_of(held)

    assert isinstance(end, Release)
    assert ledger.starts(held.row.job_id) == 0


def test_a_job_does_not_start_while_the_server_can_not_be_asked(
    queue: Queue, held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    held.queue = Queue(redis.Redis.from_url("redis://127.0.0.1:1"), queue.keys.prefix, queue.name)

    end = end_of(held)

    assert isinstance(end, Release)
    assert ledger.starts(held.row.job_id) == 0
    assert "the server can't be asked" in caplog.text
    assert "taken over" not in caplog.text
