"""At its memory limit the server takes no new job, whole or in part, and goes on with those that it has."""

import pytest
import redis

from echomq_django.bus import jobs
from echomq_django.bus.jobs import Completion, Verdict
from echomq_django.bus.queue import Queue, open_queue
from echomq_django.bus.row import Done
from echomq_django.bus.schedule import fire
from echomq_django.exceptions import BusFull
from tests.bus.scenes import SOON, W1, active, completion, enqueued, new_job
from tests.bus.verbs import VERBS
from tests.bus.view import changes
from tests.invariants import check


@pytest.fixture(scope="module")
def full_server(valkey, tmp_path_factory):
    with type(valkey)(tmp_path_factory.mktemp("full")) as server:
        yield server


@pytest.fixture
def queue(full_server, prefix):
    """A queue on a server of its own that `fill` brings to its limit."""
    with redis.Redis.from_url(full_server.url) as client:
        client.config_set("maxmemory", 0)
        client.flushall()
        queue = Queue(client, prefix, "mail")
        open_queue(queue, 30_000)
        yield queue
        check(client, prefix)


def fill(queue):
    queue.client.config_set("maxmemory", queue.client.info("memory")["used_memory"] // 2)


@pytest.mark.parametrize("known", [True, False], ids=["script known", "script unknown"])
@pytest.mark.parametrize("options", [{}, {"lane": "a"}, {"delay_ms": SOON}], ids=["plain", "lane", "delayed"])
def test_a_new_job_is_refused_and_nothing_of_it_is_written(queue, options, known):
    enqueued(queue)
    if not known:
        queue.client.script_flush()
    fill(queue)
    with changes(queue) as changed, pytest.raises(BusFull, match="jobs/enqueue: the server is at its memory limit"):
        jobs.enqueue(queue, [new_job(queue, **options) for _ in range(3)])
    assert changed == {}


def test_the_same_jobs_are_taken_when_there_is_room_again(queue):
    batch = [new_job(queue) for _ in range(3)]
    fill(queue)
    with pytest.raises(BusFull):
        jobs.enqueue(queue, batch)
    queue.client.config_set("maxmemory", 0)
    assert jobs.enqueue(queue, batch) == [True] * 3


def test_a_slot_that_is_refused_can_be_fired_when_there_is_room_again(queue):
    job = new_job(queue)
    fill(queue)
    with changes(queue) as changed, pytest.raises(BusFull, match="schedule/fire: the server is at its memory limit"):
        fire(queue, "nightly", "2026-01-01", job)
    assert changed == {}
    queue.client.config_set("maxmemory", 0)
    assert fire(queue, "nightly", "2026-01-01", job)


@pytest.mark.parametrize("known", [True, False], ids=["script known", "script unknown"])
@pytest.mark.parametrize("name", sorted(VERBS.keys() - {"jobs/enqueue", "schedule/fire"}))
def test_every_other_move_goes_on(queue, name, known):
    act, expected = VERBS[name](queue)
    if not known:
        queue.client.script_flush()
    fill(queue)
    assert act() == expected


def test_a_large_result_is_refused_and_the_job_can_end_without_it(queue):
    (row,) = active(queue)
    large = Completion(row.job_id, row.token, 60_000, Done.pack_result("app.tasks.send", W1, bytes(5000)))
    fill(queue)
    with changes(queue) as changed, pytest.raises(BusFull):
        jobs.complete(queue, W1, [large])
    assert changed == {}
    assert jobs.complete(queue, W1, [completion(row)]) == [Verdict.ACCEPTED]


def test_a_queue_is_drained_at_the_limit(queue):
    enqueued(queue, 300)
    fill(queue)
    done = 0
    while rows := jobs.claim(queue, W1, jobs.new_nonce(), 50):
        done += sum(jobs.complete(queue, W1, [completion(row, ttl_ms=0) for row in rows]))
    assert done == 300
