"""A job never arrives before the COMMIT that it belongs to, never without it, and is not lost after it."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection, connections, transaction
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from echomq_django import enqueue_many, task
from echomq_django.bus import jobs
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import Row
from echomq_django.connection import get_bus
from echomq_django.embedded import Valkey
from echomq_django.exceptions import (
    AmbiguousTransaction,
    BusUnavailable,
    InvalidArguments,
    InvalidName,
    InvalidOption,
    JobNotStored,
)
from echomq_django.floor.outbox import relay
from echomq_django.framework import TaskResultDoesNotExist, TaskResultStatus, task_enqueued
from echomq_django.models import OutboxJob

pytestmark = [pytest.mark.django_db(transaction=True, databases=["default", "other"]), pytest.mark.usefixtures("emq")]


@task
def send(number: int = 0) -> None: ...


def pending(queue: Queue) -> list[str]:
    return [job_id.decode() for job_id in queue.client.zrange(queue.keys.pending, 0, -1)]


def test_outside_a_transaction_the_job_arrives_at_once(queue: Queue) -> None:
    result = send.enqueue()

    assert pending(queue) == [result.id]


def test_in_a_transaction_the_job_arrives_with_its_commit(queue: Queue) -> None:
    with transaction.atomic():
        result = send.enqueue()
        assert pending(queue) == []
        assert (result.status, result.state, result.enqueued_at) == (TaskResultStatus.READY, "uncommitted", None)
        with pytest.raises(TaskResultDoesNotExist):
            result.refresh()

    assert pending(queue) == [result.id]
    assert (result.state, result.enqueued_at is None) == ("pending", False)
    result.refresh()


def test_a_rolled_back_transaction_leaves_no_job(queue: Queue) -> None:
    with transaction.atomic():
        send.enqueue()
        enqueue_many(send, [((1,), {}), ((2,), {})])
        transaction.set_rollback(True)

    assert pending(queue) == []


def test_a_rolled_back_savepoint_takes_only_its_own_jobs(queue: Queue) -> None:
    with transaction.atomic():
        before = send.enqueue()
        with transaction.atomic():
            send.enqueue()
            transaction.set_rollback(True)
        with transaction.atomic():
            inner = send.enqueue()
        after = send.enqueue()
        assert pending(queue) == []

    assert pending(queue) == [before.id, inner.id, after.id]


def test_many_jobs_arrive_with_the_commit(queue: Queue) -> None:
    with transaction.atomic():
        minted = enqueue_many(send, [((n,), {}) for n in range(300)])
        assert pending(queue) == []

    assert sorted(pending(queue)) == minted


def test_the_one_database_in_a_transaction_decides(queue: Queue) -> None:
    connections["default"].ensure_connection()
    with transaction.atomic(using="other"):
        result = send.enqueue()
        assert pending(queue) == []

    assert pending(queue) == [result.id]


def test_two_databases_in_a_transaction_are_ambiguous(queue: Queue) -> None:
    with transaction.atomic(), transaction.atomic(using="other"):
        with pytest.raises(AmbiguousTransaction, match=r"'default', 'other' are in a transaction: .*using\(database="):
            send.enqueue()
        with pytest.raises(AmbiguousTransaction):
            enqueue_many(send, [((1,), {})])

    assert pending(queue) == []


@pytest.mark.parametrize("outer", ["default", "other"])
def test_the_option_database_says_which_commit_counts(queue: Queue, outer: str) -> None:
    [inner] = {"default", "other"} - {outer}
    with transaction.atomic(using=outer):
        with transaction.atomic(using=inner):
            result = send.using(database=outer).enqueue()
        assert pending(queue) == []

    assert pending(queue) == [result.id]


def test_database_none_waits_for_nothing(queue: Queue) -> None:
    with transaction.atomic(), transaction.atomic(using="other"):
        result = send.using(database=None).enqueue()
        assert pending(queue) == [result.id]
        transaction.set_rollback(True)

    assert pending(queue) == [result.id]


def test_a_named_database_without_a_transaction_means_at_once(queue: Queue) -> None:
    with transaction.atomic(using="other"):
        result = send.using(database="default").enqueue()

        assert pending(queue) == [result.id]


def test_a_database_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidOption, match="database = 'othre' is no alias of DATABASES; did you mean 'other'"):
        send.using(database="othre").enqueue()


def test_enqueueing_opens_no_database_connection() -> None:
    def look() -> list[str]:
        send.enqueue()
        return [one.alias for one in connections.all(initialized_only=True)]

    with ThreadPoolExecutor(1) as fresh_thread:
        assert fresh_thread.submit(look).result() == []


def test_a_named_database_that_has_no_transaction_is_not_connected() -> None:
    def look() -> list[bool]:
        send.using(database="other").enqueue()
        return [one.connection is None for one in connections.all(initialized_only=True)]

    with ThreadPoolExecutor(1) as fresh_thread:
        assert fresh_thread.submit(look).result() == [True]


def test_what_is_wrong_with_a_job_is_said_before_the_commit() -> None:
    with transaction.atomic():
        with pytest.raises(InvalidName):
            send.using(lane=lambda: "two\nlines").enqueue()
        with pytest.raises(InvalidArguments):
            send.enqueue({1})  # type: ignore[arg-type]


def test_a_transaction_whose_end_nobody_announces_is_refused(queue: Queue) -> None:
    transaction.set_autocommit(False)
    try:
        with pytest.raises(transaction.TransactionManagementError, match="manual transaction management"):
            send.enqueue()
        result = send.using(database=None).enqueue()
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)

    assert pending(queue) == [result.id]


def test_an_async_enqueue_sees_the_transaction_of_its_caller(queue: Queue) -> None:
    async def view() -> str:
        return (await send.aenqueue()).id

    with transaction.atomic():
        job_id = async_to_sync(view)()
        assert pending(queue) == []

    assert pending(queue) == [job_id]


def test_an_async_enqueue_of_a_rolled_back_transaction_leaves_no_job(queue: Queue) -> None:
    def body() -> None:
        with transaction.atomic():
            async_to_sync(send.aenqueue)()
            transaction.set_rollback(True)

    async def view() -> None:
        await sync_to_async(body)()

    async_to_sync(view)()

    assert pending(queue) == []


def test_a_delay_counts_down_while_the_transaction_is_open(queue: Queue) -> None:
    with transaction.atomic():
        result = send.using(run_after=datetime.now(UTC) + timedelta(milliseconds=300)).enqueue()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(0.4)")

    assert pending(queue) == [result.id]


def test_the_signal_is_sent_after_the_commit() -> None:
    heard = []

    def listen(task_result: Any, **kwargs: Any) -> None:
        heard.append(task_result)

    task_enqueued.connect(listen)
    try:
        with transaction.atomic():
            result = send.enqueue()
            assert heard == []
    finally:
        task_enqueued.disconnect(listen)

    assert heard == [result]


@pytest.fixture
def down(emq: Settings, tmp_path: Any) -> Iterator[Valkey]:
    """A server that is down, and that the queue uses."""
    with Valkey(tmp_path / "valkey") as server:
        emq.CACHES = {**emq.CACHES, "emq": {**emq.CACHES["emq"], "LOCATION": server.url}}
        server.kill()
        yield server


def test_a_push_that_fails_after_the_commit_is_parked(down: Valkey, caplog: pytest.LogCaptureFixture) -> None:
    ran = []
    with caplog.at_level(logging.WARNING), transaction.atomic():
        result = send.using(priority=3, lane="blue").enqueue(7)
        transaction.on_commit(lambda: ran.append("a callback of another app"))

    parked = OutboxJob.objects.get()
    assert (parked.job_id, parked.backend, parked.queue, parked.lane, parked.priority) == (
        result.id,
        "default",
        "default",
        "blue",
        3,
    )
    assert (result.status, result.state) == (TaskResultStatus.READY, "parked")
    assert ran == ["a callback of another app"]
    [record] = [record for record in caplog.records if record.name == "echomq_django.backend"]
    assert record.levelname == "WARNING"
    assert result.id in record.getMessage()
    assert "no answer from the server" in record.getMessage()


def test_what_was_parked_arrives_when_the_server_is_back(down: Valkey) -> None:
    with transaction.atomic():
        result = send.using(priority=3).enqueue(7)
        minted = enqueue_many(send, [((n,), {}) for n in range(3)])
    down.start()

    assert relay(get_bus()) == 4

    queue = get_bus().queue("default")
    assert sorted(pending(queue)) == sorted([result.id, *minted])
    row = jobs.read(queue, result.id)
    assert isinstance(row, Row)
    assert row.priority == 3
    assert OutboxJob.objects.count() == 0


def test_no_error_of_any_kind_loses_a_job_after_the_commit(emq: Settings) -> None:
    with transaction.atomic():
        result = send.enqueue()
        emq.CACHES = {"default": emq.CACHES["default"]}

    assert OutboxJob.objects.get().job_id == result.id


def test_nothing_is_announced_for_a_parked_job(down: Valkey) -> None:
    heard = []

    def listen(task_result: Any, **kwargs: Any) -> None:
        heard.append(task_result)

    task_enqueued.connect(listen)
    try:
        with transaction.atomic():
            send.enqueue()
    finally:
        task_enqueued.disconnect(listen)

    assert heard == []


def test_a_job_that_nobody_took_after_the_commit_is_named(down: Valkey) -> None:
    table = OutboxJob._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO {table}_hidden")
    try:
        with pytest.raises(JobNotStored) as raised, transaction.atomic():
            result = send.enqueue()
        with pytest.raises(JobNotStored) as raised_for_many, transaction.atomic():
            minted = enqueue_many(send, [((n,), {}) for n in range(3)])
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {table}_hidden RENAME TO {table}")

    assert result.id in str(raised.value)
    assert "no answer from the server" in str(raised.value)
    assert table in str(raised.value)
    assert all(job_id in str(raised_for_many.value) for job_id in minted)


def test_outside_a_transaction_a_failed_push_raises_and_parks_nothing(down: Valkey) -> None:
    with pytest.raises(BusUnavailable, match=r"\[it is not known whether JOB\w{26} is enqueued\]"):
        send.enqueue()

    assert OutboxJob.objects.count() == 0


class TestInATestCase:
    """Where a test case holds every database in a transaction of its own, as `TestCase` and pytest-django do."""

    pytestmark = [pytest.mark.django_db(databases=["default", "other"])]

    def test_two_databases_of_the_test_case_are_not_ambiguous(
        self, queue: Queue, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
    ) -> None:
        connections["other"].ensure_connection()
        with django_capture_on_commit_callbacks(execute=True) as callbacks:
            result = send.enqueue()
            assert pending(queue) == []

        assert len(callbacks) == 1
        assert pending(queue) == [result.id]

    def test_the_code_s_own_transaction_counts(
        self, queue: Queue, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
    ) -> None:
        with (
            django_capture_on_commit_callbacks(using="other", execute=True) as callbacks,
            transaction.atomic(using="other"),
        ):
            result = send.enqueue()

        assert len(callbacks) == 1
        assert pending(queue) == [result.id]

    def test_the_code_s_own_transactions_can_be_ambiguous(self) -> None:
        with transaction.atomic(), transaction.atomic(using="other"), pytest.raises(AmbiguousTransaction):
            send.enqueue()
