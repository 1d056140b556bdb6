"""What is left of jobs once all that was kept of them for a while is gone: nothing."""

import time

import pytest
import redis

from echomq_django.bus import dead, jobs, limits
from echomq_django.bus.jobs import Completion
from echomq_django.bus.queue import Queue, open_queue
from echomq_django.bus.row import Done
from echomq_django.bus.schedule import promote
from tests.bus import scenes
from tests.bus.scenes import W1
from tests.bus.view import view

JOBS, BATCH, KB5 = 20_000, 100, 5_000
WARM_UP, FEW_BYTES = 5, 20_000
_PASS = """
local kept = 0
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('PTTL', key) >= 0 then redis.call('PEXPIRE', key, 1) else kept = kept + 1 end
end
return kept
"""
BODY = b"app.tasks.send\0default\0\0\0" + b"a" * KB5
RESULT = Done.pack_result("app.tasks.send", W1, b'"' + b"r" * KB5 + b'"')


@pytest.fixture
def queue(valkey, prefix, tmp_path):
    """A queue on a server of its own, whose memory nobody else uses."""
    with type(valkey)(tmp_path) as server, redis.Redis.from_url(server.url) as client:
        client.config_set("slowlog-log-slower-than", -1)  # it keeps what was slow, whatever became of it
        queue = Queue(client, prefix, "mail")
        open_queue(queue, 30_000)
        limits.set(queue, lane="a", concurrency=1_000)
        yield queue


def let_retention_pass(queue):
    """Give everything that has a time to live one of a millisecond, and wait until the server has dropped it."""
    kept = queue.client.eval(_PASS, 0)
    deadline = time.monotonic() + 20
    while queue.client.dbsize() > kept:
        assert time.monotonic() < deadline, "keys that have expired are still there"


def grown(queue, before):
    """Return by how much the used memory is more than `before`, without the events, which have a bound of their own."""
    queue.client.delete(queue.keys.events)
    return queue.client.info("memory")["used_memory"] - before


def a_batch_of_lives(queue):
    """Let jobs be enqueued, fail, die, come back and end well, with all that jobs leave behind."""
    group = scenes.a_group(queue, BATCH // 4)
    kinds = [
        lambda at: {"lane": "a"},
        lambda at: {"extras": scenes.unique(key=f"k{at}")},
        lambda at: {"extras": {"group": group}},
        lambda at: {"delay_ms": 1},
    ]
    waiting = scenes.waiting_for(queue, group, body=BODY)
    jobs.enqueue(queue, [scenes.new_job(queue, body=BODY, **kinds[at % 4](at)) for at in range(BATCH)])
    ended = 0
    while ended <= BATCH:
        promote(queue)
        rows = jobs.claim(queue, W1, scenes.nonce(), BATCH)
        first, later = [row for row in rows if row.attempts == 1], [row for row in rows if row.attempts > 1]
        fail(queue, first[0::10])
        kill(queue, first[1::10])
        for row in first[2::10]:
            jobs.progress(queue, row.job_id, row.token, done=(1, 2), line="half of it")
        well = [row for at, row in enumerate(first) if at % 10 > 1] + later
        ends = [Completion(row.job_id, row.token, 3_600_000, RESULT) for row in well]
        assert all(jobs.complete(queue, W1, ends))
        ended += len(ends)
    assert isinstance(jobs.read(queue, waiting), Done)
    assert not queue.client.keys("*:unique:*")  # a lock that is forgotten would last for months


def fail(queue, rows):
    jobs.retry(queue, W1, [scenes.retry(row, delay_ms=1) for row in rows])


def kill(queue, rows):
    """Let jobs die, the database take the deaths over, and an operator send the jobs back to work."""
    jobs.die(queue, W1, [scenes.death(row) for row in rows])
    deaths = dead.unmirrored(queue)
    assert all(dead.forget(queue, [(death.job_id, str(death.row.token)) for death in deaths]))
    for death in deaths:
        assert dead.requeue(queue, scenes.revival(death.row, extras=scenes.lasting(death.row)))


def test_jobs_leave_no_key_and_no_memory_once_their_retention_has_passed(queue):
    """C61, taskforcesh/bullmq#366."""
    for lived in range(JOBS // BATCH + WARM_UP):
        a_batch_of_lives(queue)
        let_retention_pass(queue)
        assert queue.client.xlen(queue.keys.events) < 11_000
        if lived < WARM_UP:
            before = grown(queue, 0)
    deadline = time.monotonic() + 20
    while grown(queue, before) > FEW_BYTES:  # buffers of clients shrink with the server's cron
        assert time.monotonic() < deadline, f"{grown(queue, before)} bytes are left of {JOBS} jobs"
    assert view(queue).keys() <= {"meta", "limits", "wake", "ttl"}
