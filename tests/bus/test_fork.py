"""A parent that has used the queue forks: nobody shares a socket, ids stay unique, and no reply reaches another."""

import threading

import pytest

from echomq_django.bus import ids, jobs
from echomq_django.bus.jobs import Verdict
from echomq_django.bus.queue import count
from echomq_django.bus.row import Done
from tests.bus.forked import in_children
from tests.bus.scenes import completion, enqueued, new_job
from tests.bus.view import view

CHILDREN, JOBS = 8, 50
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def enqueue_and_claim(queue, child):
    """Enqueue `JOBS` jobs one by one, claim as many, and end them; every answer names what was asked."""
    holder, mine, done = f"host.{child}", list[str](), list[str]()
    for number in range(JOBS):
        job = new_job(queue, body=f"{child}:{number}".encode(), lane=f"lane-{child}")
        assert jobs.enqueue(queue, [job]) == [True]
        stored = jobs.read(queue, job.job_id)
        assert stored.job_id == job.job_id
        # Another child may have claimed and completed it in between.
        assert isinstance(stored, Done) or stored.lane == f"lane-{child}"
        mine.append(job.job_id)
    while len(done) < JOBS:
        for row in jobs.claim(queue, holder, jobs.new_nonce(), 5):
            assert row.holder == holder
            assert jobs.complete(queue, holder, [completion(row)]) == [Verdict.ACCEPTED]
            done.append(row.job_id)
    return {"mine": mine, "done": done}


def test_forked_children_all_enqueue_and_claim(queue):
    before = enqueued(queue, 3)
    answers = in_children(CHILDREN, lambda child: enqueue_and_claim(queue, child))
    minted = [job_id for answer in answers for job_id in answer["mine"]]
    done = [job_id for answer in answers for job_id in answer["done"]]
    assert len(set(minted)) == CHILDREN * JOBS
    assert len(done) == len(set(done)) == CHILDREN * JOBS
    assert set(done) <= {*minted, *before}
    assert count(queue).pending == len(before)
    assert view(queue)["ttl"] == {f"job:{job_id}" for job_id in done}


def test_the_connection_of_the_parent_still_works(queue):
    enqueued(queue, 2)
    in_children(CHILDREN, lambda child: count(queue).pending)
    assert count(queue).pending == 2
    assert len(enqueued(queue, 2)) == 2


def test_ids_of_forked_children_differ_from_each_other_and_from_the_parent():
    mint = [ids.mint("mail")]
    minted = [
        job_id
        for answer in in_children(CHILDREN, lambda _: [ids.mint("mail") for _ in range(500)])
        for job_id in answer
    ]
    assert len({*mint, *minted, ids.mint("mail")}) == CHILDREN * 500 + 2


def test_a_child_forked_while_another_thread_mints_is_not_stuck():
    stop = threading.Event()
    thread = threading.Thread(target=lambda: [ids.mint("mail") for _ in iter(stop.is_set, True)])
    thread.start()
    try:
        for _ in range(5):
            assert len(in_children(2, lambda _: ids.mint("mail"))) == 2
    finally:
        stop.set()
        thread.join()


def test_threads_share_a_queue_without_mixing_replies(queue):
    answers, errors = [], []

    def work(child):
        try:
            answers.append(enqueue_and_claim(queue, child))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(child,)) for child in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    done = [job_id for answer in answers for job_id in answer["done"]]
    assert len(done) == len(set(done)) == 4 * JOBS
