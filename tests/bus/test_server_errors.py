"""What a server in trouble says becomes the error that tells what to do about it."""

import threading

import pytest
import redis

from echomq_django.bus import jobs
from echomq_django.bus.queue import Queue, count
from echomq_django.bus.wakeups import WakeUps
from echomq_django.exceptions import BusRefused, BusUnavailable, ScriptFailed
from tests.bus.scenes import W1, enqueued, new_job, nonce
from tests.bus.view import changes


@pytest.fixture(scope="module")
def troubled_server(valkey, tmp_path_factory):
    with type(valkey)(tmp_path_factory.mktemp("troubled")) as server:
        yield server


@pytest.fixture
def queue(troubled_server, prefix):
    """A queue on a server of its own, whose settings a test may spoil."""
    with redis.Redis.from_url(troubled_server.url) as client:
        yield Queue(client, prefix, "mail")
        client.replicaof("NO", "ONE")
        client.config_set("min-replicas-to-write", 0)
        client.flushall()


def test_a_replica_can_not_serve_now(queue):
    enqueued(queue)
    queue.client.replicaof("127.0.0.1", "1")
    for say in (lambda: jobs.enqueue(queue, [new_job(queue)]), lambda: jobs.claim(queue, W1, nonce(), 1)):
        with pytest.raises(BusUnavailable, match="can't serve now"):
            say()


def test_a_server_without_enough_replicas_can_not_serve_now_and_loses_nothing(queue):
    enqueued(queue)
    queue.client.config_set("min-replicas-to-write", 1)
    with changes(queue) as changed, pytest.raises(BusUnavailable, match="NOREPLICAS"):
        jobs.claim(queue, W1, nonce(), 1)
    assert changed == {}


def test_a_server_that_is_busy_with_another_script_can_not_serve_now(queue, troubled_server):
    enqueued(queue)
    queue.client.config_set("busy-reply-threshold", 1)
    stuck = threading.Thread(target=_run_for_ever, args=(troubled_server.url,))
    stuck.start()
    try:
        with pytest.raises(BusUnavailable, match="BUSY"):
            _count_until_refused(queue)
    finally:
        queue.client.script_kill()
        stuck.join()
        queue.client.config_set("busy-reply-threshold", 5000)
    assert count(queue).pending == 1


def _count_until_refused(queue):
    while True:
        count(queue)


def _run_for_ever(url):
    with redis.Redis.from_url(url) as client, pytest.raises(redis.ResponseError):
        client.eval("while true do end", 0)


def test_a_wait_on_a_server_that_becomes_a_replica_ends_as_unavailable(queue):
    wakeups = WakeUps(queue.client, [queue])
    wakeups.arm(30)
    queue.client.replicaof("127.0.0.1", "1")
    with pytest.raises(BusUnavailable, match="UNBLOCKED"):
        wakeups.take()
    assert not wakeups.armed


def test_a_wrong_password_is_refused(troubled_server, queue):
    wrong = troubled_server.url.replace("redis://", "redis://nobody:wrong@")
    with redis.Redis.from_url(wrong) as client, pytest.raises(BusRefused, match="refuses this user"):
        count(Queue(client, queue.keys.prefix, "mail"))


def test_a_command_that_the_user_may_not_run_is_refused(troubled_server, queue):
    queue.client.acl_setuser("reader", enabled=True, nopass=True, commands=["+ping"], keys=["*"])
    reader = troubled_server.url.replace("redis://", "redis://reader:x@")
    with redis.Redis.from_url(reader) as client, pytest.raises(BusRefused, match="jobs/enqueue"):
        enqueued(Queue(client, queue.keys.prefix, "mail"))


def test_a_user_of_the_prefix_alone_can_do_everything(troubled_server, queue):
    own = [f"{queue.keys.prefix}:*"]
    queue.client.acl_setuser("app", enabled=True, nopass=True, categories=["+@all", "-@dangerous"], keys=own)
    app = troubled_server.url.replace("redis://", "redis://app:x@")
    with redis.Redis.from_url(app) as client:
        theirs = Queue(client, queue.keys.prefix, "mail")
        enqueued(theirs, 2)
        enqueued(theirs, 2, lane="a")
        assert len(jobs.claim(theirs, W1, nonce(), 5)) == 4


def test_what_repeating_will_not_cure_is_a_failed_script(queue):
    queue.client.set(queue.keys.lanes, "not a zset")
    with pytest.raises(ScriptFailed, match="jobs/claim: WRONGTYPE"):
        jobs.claim(queue, W1, nonce(), 1)


def test_a_server_that_does_not_answer_in_time_is_unavailable(troubled_server, queue):
    with redis.Redis.from_url(troubled_server.url, socket_timeout=0.2) as client:
        impatient = Queue(client, queue.keys.prefix, "mail")
        queue.client.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")
        try:
            with pytest.raises(BusUnavailable, match="no answer"):
                enqueued(impatient)
        finally:
            queue.client.execute_command("CLIENT", "UNPAUSE")
