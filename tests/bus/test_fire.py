"""A slot of a schedule is fired once, whoever else fires it too."""

import threading

import pytest

from echomq_django.bus import jobs
from echomq_django.bus.ids import derive
from echomq_django.bus.queue import count
from echomq_django.bus.schedule import fire, last_slots
from tests.bus.forked import in_children
from tests.bus.scenes import SOON, W1, completion, new_job, nonce, stored, unique
from tests.bus.view import changes, view

SLOTS = [f"2026-01-{day:02}T00:00" for day in range(1, 29)]


def job_of(queue, slot, schedule="nightly", **options):
    return new_job(queue, job_id=derive(queue.name, schedule, slot), **options)


def test_a_slot_enqueues_its_job_and_wakes_a_worker(queue):
    job = job_of(queue, SLOTS[0], lane="a", priority=4)
    with changes(queue) as changed:
        assert fire(queue, "nightly", SLOTS[0], job)
    assert changed.keys() == {"slots", "g:a:pending", "lanes", "wake", f"job:{job.job_id}"}
    assert changed["slots"] == {"nightly": SLOTS[0]}
    row = stored(queue, job.job_id)
    assert (row.lane, row.priority, row.body) == ("a", 4, job.body)


@pytest.mark.parametrize("slot", [SLOTS[3], SLOTS[2], SLOTS[0]], ids=["the same", "the one before", "an old one"])
def test_a_slot_that_was_fired_or_is_older_is_refused(queue, slot):
    fire(queue, "nightly", SLOTS[3], job_of(queue, SLOTS[3]))
    with changes(queue) as changed:
        assert not fire(queue, "nightly", slot, new_job(queue))
    assert changed == {}


def test_the_next_slot_is_fired(queue):
    assert [fire(queue, "nightly", slot, job_of(queue, slot)) for slot in SLOTS[:3]] == [True] * 3
    assert count(queue).pending == 3


def test_schedules_do_not_meet(queue):
    assert fire(queue, "nightly", SLOTS[1], job_of(queue, SLOTS[1]))
    assert fire(queue, "weekly", SLOTS[0], job_of(queue, SLOTS[0], "weekly"))


def test_a_slot_with_a_delay_is_scheduled(queue):
    job = job_of(queue, SLOTS[0], delay_ms=SOON)
    assert fire(queue, "nightly", SLOTS[0], job)
    assert view(queue)["scheduled"].keys() == {job.job_id}


def test_the_same_call_again_after_its_answer_was_lost_adds_nothing(queue):
    job = job_of(queue, SLOTS[0])
    fire(queue, "nightly", SLOTS[0], job)
    jobs.complete(queue, W1, [completion(row) for row in jobs.claim(queue, W1, nonce(), 1)])
    with changes(queue) as changed:
        assert not fire(queue, "nightly", SLOTS[0], job)
    assert changed == {}


def test_a_slot_whose_job_is_there_already_is_fired_and_adds_nothing(queue):
    job = job_of(queue, SLOTS[0])
    jobs.enqueue(queue, [job])
    before = stored(queue, job.job_id)
    with changes(queue) as changed:
        assert fire(queue, "nightly", SLOTS[0], job)
    assert changed == {"slots": {"nightly": SLOTS[0]}}
    assert stored(queue, job.job_id) == before


def test_slots_that_the_server_forgot_do_not_run_a_job_twice(queue):
    job = job_of(queue, SLOTS[0])
    fire(queue, "nightly", SLOTS[0], job)
    queue.client.delete(queue.keys.slots)
    fire(queue, "nightly", SLOTS[0], job)
    assert count(queue).pending == 1


def fire_all(queue):
    return sum(fire(queue, "nightly", slot, new_job(queue)) for slot in SLOTS)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_processes_that_fire_the_same_slots_fire_each_at_most_once(queue):
    fired = sum(in_children(4, lambda _: fire_all(queue)))
    assert fired == count(queue).pending == len(SLOTS)


def test_threads_that_fire_the_same_slots_fire_each_at_most_once(queue):
    fired = []
    threads = [threading.Thread(target=lambda: fired.append(fire_all(queue))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(fired) == count(queue).pending == len(SLOTS)


def test_a_slot_of_a_unique_job_merges_into_the_one_that_is_still_there(queue):
    first, second, third = (job_of(queue, slot, extras=unique()) for slot in SLOTS[:3])
    assert fire(queue, "nightly", SLOTS[0], first)

    assert fire(queue, "nightly", SLOTS[1], second)

    assert count(queue).pending == 1
    assert jobs.read(queue, second.job_id).job_id == first.job_id
    jobs.complete(queue, W1, [completion(row) for row in jobs.claim(queue, W1, nonce(), 1)])
    assert fire(queue, "nightly", SLOTS[2], third)
    assert stored(queue, third.job_id).job_id == third.job_id


def test_the_last_slots_can_be_read(queue):
    fire(queue, "nightly", SLOTS[1], job_of(queue, SLOTS[1]))
    fire(queue, "weekly", SLOTS[0], job_of(queue, SLOTS[0], "weekly"))

    assert last_slots(queue) == {"nightly": SLOTS[1], "weekly": SLOTS[0]}
