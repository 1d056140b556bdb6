"""A worker is killed before and after each script that it calls, and another one takes over."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from math import inf
from pathlib import Path

import pytest
from django.db import transaction
from django_q.models import Schedule

from echomq_django import enqueue_chain, enqueue_group, enqueue_many, schedule, step
from echomq_django.bus import ids, jobs, limits
from echomq_django.bus.jobs import NewJob
from echomq_django.bus.message import Message
from echomq_django.bus.queue import Queue
from echomq_django.bus.recovery import abandon
from echomq_django.bus.row import State
from echomq_django.bus.schedule import last_slots
from echomq_django.connection import get_bus
from echomq_django.floor import outbox
from echomq_django.floor.dead_letters import mirror
from echomq_django.models import DeadJob, OutboxJob
from tests.bus import scenes
from tests.chaos import flow_tasks, ledger, seen, tasks
from tests.chaos.crew import Crew
from tests.chaos.flow_tasks import add, tell
from tests.chaos.moment import SCRIPTS, Moment, at, reached
from tests.chaos.proxy import Proxy
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]

NOT_OF_A_WORKER = {
    "jobs/discard": "operators, in the admin",
    "limits/pause": "operators",
    "limits/resume": "operators",
    "limits/set": "operators",
    "schedule/hasten": "tests that let time pass",
}
GHOST = "host:1:gone"  # a holder of whom nothing is left
WORK = {"body": Message(tasks.work.module_path, b"[[],{}]").pack(), "lease_ms": 1500}


@contextmanager
def nothing_claimed(queue: Queue) -> Iterator[None]:
    """Keep the other processes of a worker from claiming what one of them has moved, until all of them are dead."""
    limits.pause(queue)
    yield
    limits.resume(queue)


@pytest.fixture
def lease() -> float:
    """Short, since most of these jobs come back when it ends."""
    return 1.5


@pytest.fixture(params=["before", "after"])
def moment(request: pytest.FixtureRequest, crew: Crew, queue: Queue, to_server: Proxy, script: str) -> Moment:
    """The moment before or after a call of the script that the test names."""
    return Moment(crew, queue, to_server, script, request.param == "after")


@pytest.fixture
def emails(queue: Queue) -> Queue:
    """The other queue."""
    return get_bus().queue("emails")


def test_each_script_that_a_worker_calls_is_among_them() -> None:
    assert reached.isdisjoint(NOT_OF_A_WORKER)
    assert reached | NOT_OF_A_WORKER.keys() == SCRIPTS


@at("queue/open")
def test_a_worker_that_is_lost_at_its_start_leaves_the_jobs_to_the_next(moment: Moment, queue: Queue) -> None:
    job_id = tasks.work.enqueue().id
    moment.strike()
    assert queue.client.hget(queue.keys.meta, "lease_ms") == moment.pick((None, b"1500"))
    with moment.inherited():
        moment.ends(job_id)


@at("jobs/claim")
def test_a_claim_that_nobody_heard_of_costs_a_stall_and_no_job(moment: Moment) -> None:
    job_id = tasks.work.enqueue().id
    moment.strike()
    moment.finds(job_id, State.PENDING, State.ACTIVE)
    with moment.inherited():
        moment.ends(job_id, stalls=(0, 1))  # nobody can know that what it claimed to start has not started


@at("jobs/claim_alone")
def test_a_suspect_is_claimed_once_more_and_its_neighbour_pays_nothing(moment: Moment, queue: Queue) -> None:
    first, second = rows = scenes.active(queue, 2, holder=GHOST, **WORK)
    abandon(queue, GHOST, [(row.job_id, row.token.fence) for row in rows])
    moment.strike("--queues", "default")
    moment.finds(first.job_id, State.SUSPECT, State.ACTIVE)
    with moment.inherited():
        moment.ends(first.job_id, stalls=(0, 1))
        moment.ends(second.job_id)


@at("jobs/claim_alone")
def test_an_isolated_job_is_claimed_once_more(moment: Moment) -> None:
    job_id = tasks.work.using(isolate=True).enqueue().id
    moment.strike("--queues", "default")
    moment.finds(job_id, State.PENDING, State.ACTIVE)
    with moment.inherited():
        moment.ends(job_id, stalls=(0, 1))


@at("jobs/extend")
def test_a_job_comes_back_when_nobody_renews_its_lease(moment: Moment, queue: Queue, gate: Path) -> None:
    job_id = tasks.hold.enqueue(str(gate)).id
    moment.strike()
    row = seen.row(queue, job_id)
    assert (seen.active(queue)[job_id] > row.claimed_at + row.lease_ms) is moment.pick((False, True))
    with moment.inherited():
        moment.ends(job_id, starts=(2, 2), stalls=(1, 1))


@at("jobs/progress")
def test_a_job_that_has_told_something_starts_once_more(moment: Moment, queue: Queue) -> None:
    job_id = flow_tasks.log_and_work.enqueue().id
    moment.strike()
    moment.finds(job_id, State.ACTIVE, State.ACTIVE)
    assert queue.client.llen(queue.keys.log(job_id)) == moment.pick((0, 1))
    with moment.inherited():
        moment.ends(job_id, starts=(2, 2), stalls=(1, 1))
    assert queue.client.llen(queue.keys.log(job_id)) == moment.pick((1, 2))


@at("jobs/complete")
def test_an_end_that_the_server_knows_frees_lock_and_lane_and_is_the_end(moment: Moment, queue: Queue) -> None:
    limits.set(queue, lane="narrow", concurrency=1)
    narrow = tasks.work.using(lane="narrow")
    job_id, next_one = narrow.using(unique="done").enqueue().id, narrow.enqueue().id
    moment.strike()
    moment.finds(job_id, State.ACTIVE, State.COMPLETED)
    assert len(list(queue.client.scan_iter(f"{queue.keys.base}unique:*"))) == moment.pick((1, 0))
    with moment.inherited():
        moment.ends(job_id, starts=(2, 1), stalls=(1, 0))
        moment.ends(next_one)


@at("jobs/complete")
def test_the_next_step_of_a_chain_comes_once(moment: Moment) -> None:
    job_id = enqueue_chain(step(tasks.work), step(tell, "next")).id
    moment.strike()
    moment.finds(job_id, State.ACTIVE, State.COMPLETED)
    with moment.inherited():
        moment.ends(job_id, starts=(2, 1), stalls=(1, 0))
        until(lambda: ledger.effect("next"))
    assert ledger.starts("next") == 1


@at("jobs/complete")
def test_the_job_after_a_group_comes_once(moment: Moment, queue: Queue) -> None:
    group = enqueue_group([step(tasks.work)], then=step(tell, "then"))
    moment.strike()
    moment.finds(group.members[0], State.ACTIVE, State.COMPLETED)
    assert (seen.due_at(queue, group.then) < inf) is moment.pick((False, True))
    with moment.inherited():
        moment.ends(group.members[0], starts=(2, 1), stalls=(1, 0))
        until(lambda: ledger.effect("then"))
    assert ledger.starts("then") == 1


@at("jobs/retry")
def test_a_failure_is_charged_if_the_server_heard_of_it(moment: Moment) -> None:
    job_id = tasks.fail_once.enqueue().id
    moment.strike()
    moment.finds(job_id, State.ACTIVE, State.SCHEDULED)
    with moment.inherited():
        moment.ends(job_id, starts=(2, 2), stalls=(1, 0), failures=(0, 1))


@at("jobs/retry")
def test_a_cancelled_job_that_asks_for_another_try_gets_none(moment: Moment, queue: Queue) -> None:
    result = flow_tasks.work_until_cancelled.enqueue("retry")
    moment.arm()
    moment.start()
    until(lambda: ledger.starts(result.id))
    result.cancel()
    moment.comes()
    moment.finds(result.id, State.ACTIVE, State.CANCELLED)
    with moment.inherited():
        seen.done(queue, result.id)
    moment.finds(result.id, State.CANCELLED, State.CANCELLED)
    assert ledger.starts(result.id) == 1


@at("jobs/release")
def test_a_job_that_is_handed_back_unstarted_starts_once_and_is_charged_nothing(
    moment: Moment, queue: Queue, gate: Path
) -> None:
    enqueue_many(tasks.nothing, [((), {})] * 60)  # so short that it takes some in advance
    long, waiting = tasks.hold.enqueue(str(gate)).id, tasks.work.enqueue().id
    moment.strike(ready=lambda: seen.is_in(queue, waiting, State.ACTIVE))
    moment.finds(long, State.ACTIVE, State.ACTIVE)
    moment.finds(waiting, State.ACTIVE, State.PENDING)
    with moment.inherited():
        moment.ends(waiting)
        seen.done(queue, long)  # with a stall or none: the server hears of what starts from a hand at a renewal
    assert ledger.starts(long) == 2


@at("jobs/die")
def test_a_job_that_gives_up_becomes_one_dead_job(moment: Moment) -> None:
    job_id = tasks.raise_error.using(unique="done").enqueue("SystemExit").id
    moment.strike()
    moment.finds(job_id, State.ACTIVE, State.DEAD)
    with moment.inherited(deaths=1):
        dead = until(lambda: DeadJob.objects.filter(job_id=job_id).first())
    assert (dead.failures, dead.stalled, ledger.starts(job_id)) == (1, *moment.pick(((1, 2), (0, 1))))


@at("dead/unmirrored")
def test_a_death_that_was_only_read_becomes_one_dead_job(moment: Moment, queue: Queue) -> None:
    [row] = scenes.dead(queue, **WORK)
    moment.strike()
    moment.finds(row.job_id, State.DEAD, State.DEAD)
    assert not DeadJob.objects.exists()
    with moment.inherited(deaths=1):
        until(DeadJob.objects.exists)


@at("dead/forget")
def test_a_death_that_the_database_has_becomes_no_second_dead_job(moment: Moment, queue: Queue) -> None:
    [row] = scenes.dead(queue, **WORK)
    moment.strike()
    moment.finds(row.job_id, State.DEAD, None)
    assert DeadJob.objects.count() == 1
    with moment.inherited(deaths=1):
        pass


@at("dead/requeue")
def test_a_requeued_job_gets_one_new_life(moment: Moment, queue: Queue) -> None:
    scenes.dead(queue, **WORK)
    [dead] = mirror(queue, "default")
    with transaction.atomic():
        outbox.park_revivals([dead])
    with nothing_claimed(queue):
        moment.strike()
        moment.finds(dead.job_id, None, State.PENDING)
    with moment.inherited(deaths=1):
        moment.ends(dead.job_id)


@at("jobs/enqueue")
def test_a_parked_job_is_pushed_once(moment: Moment, queue: Queue) -> None:
    parked = outbox.park("default", "default", NewJob(ids.mint("default"), **WORK), "")
    with nothing_claimed(queue):
        moment.strike()
        moment.finds(parked.job_id, None, State.PENDING)
    with moment.inherited():
        moment.ends(parked.job_id)


@at("jobs/cancel")
def test_a_parked_job_that_is_cancelled_never_starts(moment: Moment, queue: Queue) -> None:
    parked = outbox.park("default", "default", NewJob(ids.mint("default"), **WORK), "")
    OutboxJob.objects.update(extras={"cancelled": True})
    moment.strike()
    moment.finds(parked.job_id, State.SCHEDULED, State.CANCELLED)
    with moment.inherited():
        seen.done(queue, parked.job_id)
    assert ledger.starts(parked.job_id) == 0


@at("groups/leave")
def test_a_group_waits_no_more_for_a_member_that_is_discarded(moment: Moment, queue: Queue) -> None:
    group = enqueue_group([step(tasks.work)], then=step(tell, "then"))
    rows = jobs.claim(queue, GHOST, scenes.nonce(), 1)
    jobs.die(queue, GHOST, list(map(scenes.death, rows)))
    dead = mirror(queue, "default")
    with transaction.atomic():
        outbox.park_leaves(dead)
    moment.strike()
    assert (seen.due_at(queue, group.then) < inf) is moment.pick((False, True))
    with moment.inherited(deaths=1):
        until(lambda: ledger.effect("then"))
    assert ledger.starts("then") == 1


@at("jobs/enqueue")
def test_the_next_step_reaches_another_queue_once(moment: Moment, queue: Queue, emails: Queue) -> None:
    enqueue_chain(step(add, 1), step(tell.using(queue_name="emails"), "next"))
    moment.strike()
    assert queue.client.llen(queue.keys.handoff) == 1
    assert emails.client.zcard(emails.keys.pending) == moment.pick((0, 1))
    with moment.inherited():
        until(lambda: ledger.effect("next"))
    assert ledger.starts("next") == 1


@at("groups/release")
def test_another_queue_hears_that_a_group_is_over(moment: Moment, queue: Queue, emails: Queue) -> None:
    group = enqueue_group([step(tasks.work)], then=step(tell.using(queue_name="emails"), "then"))
    moment.strike()
    assert queue.client.llen(queue.keys.handoff) == 1
    assert (seen.due_at(emails, group.then) < inf) is moment.pick((False, True))
    with moment.inherited():
        moment.ends(group.members[0])
        until(lambda: ledger.effect("then"))
    assert ledger.starts("then") == 1


@at("recovery/recover")
def test_a_lease_that_expired_is_charged_one_stall(moment: Moment, queue: Queue) -> None:
    [row] = scenes.active(queue, holder=GHOST, **WORK)

    def the_lease_has_just_ended() -> bool:
        scenes.expire(queue, row)
        return True

    with nothing_claimed(queue):
        moment.strike(ready=the_lease_has_just_ended)
        moment.finds(row.job_id, State.ACTIVE, State.PENDING)
    with moment.inherited():
        moment.ends(row.job_id, stalls=(1, 1))


@at("recovery/abandon")
def test_the_job_of_a_dead_child_is_charged_one_stall(moment: Moment, queue: Queue, gate: Path) -> None:
    job_id = tasks.hold.enqueue(str(gate)).id
    moment.arm()
    moment.start()
    [child] = until(lambda: ledger.pids(job_id))
    with nothing_claimed(queue):
        os.kill(child, signal.SIGKILL)
        moment.comes()
        moment.finds(job_id, State.ACTIVE, State.PENDING)
    with moment.inherited():
        moment.ends(job_id, starts=(2, 2), stalls=(1, 1))


@at("schedule/promote")
def test_a_job_that_is_due_starts_once(moment: Moment, queue: Queue) -> None:
    [job_id] = scenes.enqueued(queue, delay_ms=1, **WORK)
    with nothing_claimed(queue):
        moment.strike()
        moment.finds(job_id, State.SCHEDULED, State.PENDING)
    with moment.inherited():
        moment.ends(job_id)


@at("schedule/fire")
def test_a_slot_is_fired_once(moment: Moment, queue: Queue) -> None:
    row = schedule(tasks.tick, every=3600, name="hourly", args=["hourly"])
    rows = Schedule.objects.filter(pk=row.pk)
    rows.update(next_run=datetime.now(UTC))
    moment.strike()
    assert len(last_slots(queue)) == moment.pick((0, 1))
    with moment.inherited():
        until(rows.filter(next_run__gt=datetime.now(UTC)).exists)
        until(lambda: ledger.effects_of("hourly"))
    assert len(ledger.effects_of("hourly")) == 1


@at("queue/count")
def test_a_worker_that_asks_what_is_left_leaves_its_job_to_the_next(moment: Moment, gate: Path) -> None:
    job_id = tasks.hold.enqueue(str(gate)).id
    moment.start("--burst")
    until(lambda: ledger.starts(job_id))
    moment.arm()
    moment.comes()
    moment.finds(job_id, State.ACTIVE, State.ACTIVE)
    with moment.inherited():
        moment.ends(job_id, starts=(2, 2), stalls=(1, 1))


@at("wakeups/pass_on")
def test_a_worker_that_leaves_takes_nothing_with_it(moment: Moment, queue: Queue, gate: Path) -> None:
    last = tasks.hold.enqueue(str(gate)).id
    moment.arm()
    victim = moment.start()
    until(lambda: ledger.starts(last))
    victim.tell(signal.SIGTERM)
    victim.logged("stopping")
    waiting = tasks.work.enqueue().id
    queue.client.delete(queue.keys.wake)  # as if it had taken the wake-up
    gate.touch()
    moment.comes()
    moment.finds(last, State.COMPLETED, State.COMPLETED)
    assert queue.client.llen(queue.keys.wake) == moment.pick((0, 1))
    with moment.inherited():
        moment.ends(last)
        moment.ends(waiting)
