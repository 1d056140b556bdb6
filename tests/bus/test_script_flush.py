"""The server may forget its scripts at any moment; nobody notices, and nothing is done twice."""

import re
import threading
from contextlib import suppress

import pytest
import redis

from echomq_django.bus import jobs
from echomq_django.bus.dead import forget, requeue
from echomq_django.bus.queue import count
from echomq_django.bus.recovery import recover
from echomq_django.bus.row import Done
from echomq_django.bus.schedule import promote
from echomq_django.exceptions import BusUnavailable
from tests.bus.scenes import (
    W1,
    completion,
    death,
    enqueued,
    expire,
    make_due,
    nonce,
    release,
    retry,
    revival,
    stored,
)
from tests.bus.verbs import VERBS
from tests.bus.view import changes, view


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_answers_as_always(queue, name):
    act, expected = VERBS[name](queue)
    queue.client.script_flush()
    assert act() == expected


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_changes_what_it_always_changes(queue, name):
    seen = []
    for flush in (False, True):
        queue.client.flushdb()
        act, _ = VERBS[name](queue)
        if flush:
            queue.client.script_flush()
        with changes(queue) as changed:
            act()
        seen.append(sorted(re.sub(r"JOB\w+", "JOB", key) for key in changed))
    assert seen[0] == seen[1]


def test_a_flush_that_never_ends_is_trouble_that_passes(queue, valkey):
    stop = threading.Event()

    def flush():
        with redis.Redis.from_url(valkey.url) as client:
            while not stop.is_set():
                client.script_flush()

    flusher = threading.Thread(target=flush)
    flusher.start()
    taken = []
    try:
        for _ in range(300):
            with suppress(BusUnavailable):
                taken += enqueued(queue)
    finally:
        stop.set()
        flusher.join()
    assert count(queue).pending == len(taken)


def test_a_whole_life_with_a_flush_before_each_move_counts_each_move_once(queue):
    def claimed():
        queue.client.script_flush()
        (row,) = jobs.claim(queue, W1, nonce(), 1)
        queue.client.script_flush()
        assert jobs.extend(queue, W1) == {row.job_id: row.token}
        queue.client.script_flush()
        return row

    (job_id,) = enqueued(queue)
    jobs.release(queue, W1, [release(claimed())])
    jobs.retry(queue, W1, [retry(claimed())])
    make_due(queue, job_id)
    queue.client.script_flush()
    assert promote(queue).count == 1
    expire(queue, claimed())
    assert recover(queue).stalled == [job_id]
    jobs.die(queue, W1, [death(claimed())])
    corpse = stored(queue, job_id)
    assert (corpse.attempts, corpse.failures, corpse.stalled, corpse.deaths) == (4, 2, 1, 1)
    queue.client.script_flush()
    assert forget(queue, [(job_id, str(corpse.token))]) == [True]
    queue.client.script_flush()
    assert requeue(queue, revival(corpse))
    jobs.complete(queue, W1, [completion(claimed())])
    kinds = [event["kind"] for event in view(queue)["events"]]
    assert kinds == ["released", "retried", "stalled", "died", "requeued"]
    done = jobs.read(queue, job_id)
    assert isinstance(done, Done)
    assert done.attempts == 5
