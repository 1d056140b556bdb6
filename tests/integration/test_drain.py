"""`drain()`: what is due runs in the thread of the test, on a real server and by the code of a worker."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import IntegrityError, connection, transaction
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from echomq_django import Discard, JobContext, Retry, enqueue_chain, enqueue_group, enqueue_many, step, task
from echomq_django.bus import limits, reads
from echomq_django.bus.queue import Queue, count
from echomq_django.commit import commit_test_case
from echomq_django.connection import get_bus
from echomq_django.exceptions import BusUnavailable, EndlessDrain
from echomq_django.floor import dead_letters
from echomq_django.framework import TaskResultStatus, task_finished
from echomq_django.models import DeadJob, OutboxJob
from echomq_django.testing import Drained, draining, isolated
from echomq_django.testing import drain as drain_

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("queue")]

HOUR = timedelta(hours=1)
ran: list[Any] = []


def drain(**options: Any) -> Drained:
    """Call `drain()` and check that nobody holds a job afterwards."""
    try:
        return drain_(**options)
    finally:
        assert all(count(queue).active == 0 for queue in get_bus().queues())


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@task
def note(*args: Any) -> Any:
    ran.append(args[-1] if args else None)
    return args[-1] if args else None


@task
def create_group(name: str) -> str:
    ran.append(threading.current_thread())
    return str(Group.objects.create(name=name).pk)


@task
async def create_group_in_coroutine(name: str) -> None:
    await Group.objects.acreate(name=name)
    ran.append(await sync_to_async(threading.current_thread)())


@task(max_failures=3, backoff=[60, 600])
def failing(name: str) -> None:
    ran.append(name)
    raise ValueError(name)


@task(max_failures=2)
def asks_again() -> None:
    ran.append("again")
    raise Retry("busy", after=5)


@task
def gives_up() -> None:
    raise Discard("nobody wants it")


@task(expires=60)
def urgent() -> None:
    ran.append("urgent")


@task(takes_context=True)
def outer(context: JobContext) -> str:
    assert context.fence
    return note.enqueue("from inside").id


@task
def endless() -> None:
    ran.append("endless")
    endless.enqueue()


@task
def interrupted() -> None:
    raise KeyboardInterrupt


def test_jobs_of_all_queues_run_in_this_thread_and_see_the_transaction_of_the_test() -> None:
    jobs: list[Any] = [create_group.enqueue("a"), create_group_in_coroutine.using(queue_name="emails").enqueue("b")]

    drained = drain()

    assert sorted(drained.succeeded) == sorted(job.id for job in jobs)
    assert set(Group.objects.values_list("name", flat=True)) == {"a", "b"}
    assert ran == [threading.main_thread()] * 2
    assert connection.in_atomic_block
    jobs[0].refresh()
    assert jobs[0].return_value == str(Group.objects.get(name="a").pk)


@pytest.mark.django_db(transaction=True)
def test_without_a_transaction_around_the_test_it_is_the_same() -> None:
    create_group.enqueue("a")
    drain()
    assert Group.objects.get().name == "a"


def test_nothing_to_do_is_done_at_once() -> None:
    assert drain() == Drained()


def test_a_push_that_waits_for_the_commit_of_the_test_case_is_made_once(
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        note.using(result_ttl=0).enqueue("captured")
    drain()
    note.using(result_ttl=0).enqueue("waiting")
    drain()
    drain()

    assert ran == ["captured", "waiting"]


def test_a_job_of_a_savepoint_that_was_rolled_back_does_not_run() -> None:
    with transaction.atomic():
        note.enqueue("no")
        transaction.set_rollback(True)
    with transaction.atomic():
        note.enqueue("yes")

    drain()
    assert ran == ["yes"]


def test_inside_a_transaction_of_the_test_it_is_refused() -> None:
    with transaction.atomic():
        note.enqueue("maybe")
        with pytest.raises(transaction.TransactionManagementError, match=r"after its atomic\(\) block"):
            drain()
    assert ran == []


def test_the_first_error_of_a_handler_is_raised_and_its_job_has_failed_as_with_a_worker(queue: Queue) -> None:
    failing.enqueue("first")
    note.enqueue("second")

    with pytest.raises(ValueError, match="first"):
        drain()

    assert ran == ["first"]
    assert (count(queue).scheduled, count(queue).pending) == (1, 1)
    assert drain().succeeded
    assert ran == ["first", "second"]


def test_an_error_that_kills_is_raised_after_the_death_has_its_row() -> None:
    failing.using(max_failures=1).enqueue("it")

    with pytest.raises(ValueError, match="it"):
        drain()

    assert DeadJob.objects.get().error_message == "it"


def test_an_error_of_the_database_that_breaks_the_transaction_of_the_test_is_the_one_that_is_raised() -> None:
    Group.objects.create(name="a")
    create_group.using(max_failures=1).enqueue("a")

    with pytest.raises(IntegrityError):
        drain()


def test_told_so_it_runs_everything_and_tells_the_failures() -> None:
    retried, dead, good = failing.enqueue("a"), failing.using(max_failures=1).enqueue("b"), note.enqueue("c")

    drained = drain(raises=False)

    assert drained == Drained(succeeded=[good.id], retried=[retried.id], died=[dead.id])
    assert list(DeadJob.objects.values_list("job_id", "reason")) == [(dead.id, "failed")]


def test_what_a_handler_answers_is_no_error() -> None:
    again, discarded = asks_again.enqueue(), gives_up.enqueue()
    assert drain() == Drained(retried=[again.id], died=[discarded.id])


def test_an_interrupt_is_always_raised(queue: Queue) -> None:
    interrupted.enqueue()
    with pytest.raises(KeyboardInterrupt):
        drain(raises=False)


def test_time_that_passes_brings_back_offs_and_delays_in_their_order(queue: Queue) -> None:
    failing.enqueue("retry")  # fails now, after 60 s and after 660 s
    for minutes in (20, 5, 0.5):
        note.using(run_after=datetime.now(UTC) + timedelta(minutes=minutes)).enqueue(minutes)

    drained = drain(advance=timedelta(minutes=10), raises=False)
    assert ran == ["retry", 0.5, "retry", 5]
    assert (len(drained.retried), len(drained.succeeded)) == (2, 2)

    drain(advance=timedelta(minutes=10, seconds=1), raises=False)
    assert ran[4:] == ["retry", 20]
    assert DeadJob.objects.get().failures == 3
    assert count(queue).scheduled == 0


def test_time_that_passes_is_not_more_than_was_asked_for(queue: Queue) -> None:
    note.using(run_after=datetime.now(UTC) + HOUR).enqueue(1)

    assert drain(advance=timedelta(minutes=59)) == Drained()
    assert 0 < count(queue).next_due_ms <= 60_000
    assert drain(advance=timedelta(minutes=1)).succeeded


def test_a_job_that_nobody_starts_in_time_expires_in_time_that_passes() -> None:
    late = urgent.using(run_after=datetime.now(UTC) + HOUR).enqueue()
    soon = urgent.using(run_after=datetime.now(UTC) + timedelta(seconds=30)).enqueue()

    assert drain(advance=HOUR) == Drained(succeeded=[soon.id], died=[late.id])
    assert DeadJob.objects.get().reason == "expired"


def test_what_a_job_enqueues_runs_too() -> None:
    outer.enqueue()
    assert len(drain().succeeded) == 2
    assert ran == ["from inside"]


def test_a_job_that_enqueues_itself_is_told_and_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "_MOST", 5)
    endless.enqueue()
    with pytest.raises(EndlessDrain, match="does a job enqueue itself"):
        drain()
    assert len(ran) == 5


def test_chains_and_groups_over_several_queues_are_run_to_their_end() -> None:
    there = note.using(queue_name="emails")
    enqueue_chain(step(note, "one"), step(there, "two"), step(note))
    group = enqueue_group([step(note, "a"), step(note, "b")], then=step(there))

    drained = drain()

    assert len(drained.succeeded) == 6
    assert {"one", "two", "a", "b"} <= {one for one in ran if isinstance(one, str)}
    assert group.members in ran


def test_a_death_that_is_requeued_comes_back_by_the_outbox() -> None:
    dead = failing.using(max_failures=1).enqueue("x")
    drain(raises=False)
    dead_letters.requeue([DeadJob.objects.get().pk], "ana")
    assert OutboxJob.objects.count() == 1

    assert drain(raises=False).died == [dead.id]
    assert ran == ["x", "x"]
    assert not OutboxJob.objects.exists()


def test_a_paused_queue_keeps_its_jobs(queue: Queue) -> None:
    note.enqueue(1)
    limits.pause(queue)
    assert drain(advance=HOUR) == Drained()
    limits.resume(queue)
    assert drain().succeeded


def test_a_task_that_can_not_be_found_is_handed_back(queue: Queue) -> None:
    unknown = note.enqueue(1)
    commit_test_case()
    raw = reads.raw(queue, unknown.id)
    queue.client.set(queue.keys.job(unknown.id), raw.replace(b"test_drain.note", b"test_drain.nope"))

    assert drain().handed_back == [unknown.id]


def test_many_jobs_are_drained_in_order() -> None:
    enqueue_many(note, [((number,), {}) for number in range(300)])
    assert len(drain().succeeded) == 300
    assert ran == list(range(300))


def test_receivers_hear_of_the_end_and_may_use_the_database() -> None:
    heard: list[Any] = []

    def listen(task_result: Any, **kwargs: Any) -> None:
        heard.append((task_result.status, Group.objects.count()))

    task_finished.connect(listen)
    try:
        create_group.enqueue("a")
        drain()
    finally:
        task_finished.disconnect(listen)
    assert heard == [(TaskResultStatus.SUCCESSFUL, 1)]


def test_queues_that_are_isolated_never_meet_and_leave_nothing_behind(redis_client: redis.Redis, emq: Settings) -> None:
    redis_client.flushall()
    with isolated() as outside:
        note.enqueue("outside")
        commit_test_case()
        with isolated() as inside:
            assert inside != outside
            assert drain() == Drained()
            limits.pause(get_bus().queue("emails"))
        assert {key.decode().partition(":")[0] for key in redis_client.scan_iter()} == {outside}
        assert len(drain().succeeded) == 1
    assert redis_client.dbsize() == 0
    assert emq.TASKS["default"]["OPTIONS"]["prefix"] not in (inside, outside)


def test_a_server_that_is_away_is_an_error_of_the_test(emq: Settings, outage: Any) -> None:
    with outage(), pytest.raises(BusUnavailable):
        drain_()
