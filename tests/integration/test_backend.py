"""Enqueueing through Django's Tasks framework: what arrives on the server, and what is refused."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from django.core.exceptions import SynchronousOnlyOperation
from pytest_django import Settings

from echomq_django import JobContext, enqueue_many, task
from echomq_django.bus import ids, jobs
from echomq_django.bus.message import Message
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import Row, State
from echomq_django.conf import ImproperlyConfiguredQueue
from echomq_django.connection import get_bus
from echomq_django.embedded import Valkey
from echomq_django.exceptions import (
    BusFull,
    BusUnavailable,
    InvalidArguments,
    InvalidName,
    InvalidOption,
    UnknownQueue,
    UnresolvableTask,
)
from echomq_django.framework import InvalidTask, TaskResultStatus, framework_logger, task_enqueued
from echomq_django.framework import Task as DjangoTask
from tests.integration.wire import Cutter


@task
def send(*args: Any, **kwargs: Any) -> None: ...


@task(
    queue_name="emails",
    priority=9,
    lane=lambda user_id, **kwargs: f"user-{user_id}",
    max_stalled=7,
    lease=2.5,
    max_failures=2,
    backoff=[1, 2],
)
def full(user_id: int, order_id: int = 0) -> None: ...


@task(takes_context=True, lane=lambda user_id: f"user-{user_id}")
def with_context(context: JobContext, user_id: int) -> None: ...


def plain(number: int) -> None: ...


def renamed(number: int) -> None: ...


other_name = task(renamed)


pytestmark = pytest.mark.usefixtures("emq")


def row_of(result: Any) -> Row:
    queue = get_bus().queue_of(result.id)
    assert queue is not None
    row = jobs.read(queue, result.id)
    assert isinstance(row, Row)
    return row


def test_a_job_arrives_with_the_settings_of_its_queue(queue: Queue, emq: Settings) -> None:
    emq.TASKS["default"]["OPTIONS"] |= {"lease": 11, "max_stalled": None}
    emq.TASKS = dict(emq.TASKS)

    result = send.enqueue(1, [2, {"a": None}], key="välue")

    row, message = row_of(result), Message.unpack(row_of(result).body)
    assert (row.state, row.lane, row.priority, row.max_stalled, row.lease_ms) == (State.PENDING, "", 0, None, 11_000)
    assert (message.task, message.alias, message.headers, message.options) == (f"{__name__}.send", "default", {}, {})
    assert message.payload == '[[1,[2,{"a":null}]],{"key":"välue"}]'.encode()


def test_the_options_of_a_task_stand_in_its_row() -> None:
    row = row_of(full.enqueue(5, order_id=6))

    assert (row.lane, row.priority, row.max_stalled, row.lease_ms) == ("user-5", 9, 7, 2_500)
    assert Message.unpack(row.body).options == {}  # what @task says is read from the code that runs the job


def test_what_using_changed_travels_with_the_job() -> None:
    changed = full.using(
        max_failures=9,
        backoff=3,
        result_ttl=0,
        lane="vip",
        max_stalled=None,
        lease=1,
        priority=-100,
        queue_name="default",
    )

    row = row_of(changed.enqueue(5))

    assert (row.lane, row.priority, row.max_stalled, row.lease_ms) == ("vip", -100, None, 1_000)
    assert Message.unpack(row.body).options == {"max_failures": 9, "backoff": 3, "result_ttl": 0}


def test_the_result_is_ready_and_knows_its_arguments() -> None:
    before = datetime.now(UTC)

    result = send.enqueue([1], a={"b": 2})

    assert ids.check(result.id) == result.id
    assert (result.status, result.state, result.attempts, result.is_finished) == (
        TaskResultStatus.READY,
        "pending",
        0,
        False,
    )
    assert (result.args, result.kwargs, result.backend, result.task) == ([[1]], {"a": {"b": 2}}, "default", send)
    assert before <= result.enqueued_at <= datetime.now(UTC)
    assert (result.started_at, result.finished_at, result.errors, result.worker_ids) == (None, None, [], [])


def test_later_changes_of_an_argument_reach_neither_job_nor_result() -> None:
    argument = [1]
    result = send.enqueue(argument)
    argument.append(2)

    assert result.args == [[1]]


def test_a_lane_is_asked_with_the_arguments_but_without_the_context() -> None:
    assert row_of(with_context.enqueue(4)).lane == "user-4"
    assert row_of(full.enqueue(user_id=4)).lane == "user-4"


@pytest.mark.parametrize("lane", ["x" * 129, "two\nlines", 5, None])
def test_an_impossible_lane_is_refused_before_anything_is_sent(queue: Queue, lane: Any) -> None:
    with pytest.raises(InvalidName, match="lane"):
        send.using(lane=lambda: lane).enqueue()

    assert queue.client.keys("*job*") == []


def test_run_after_becomes_a_delay_by_the_server_s_clock() -> None:
    result = send.using(run_after=datetime.now(UTC) + timedelta(seconds=60)).enqueue()

    row = row_of(result)
    assert (row.state, result.state) == (State.SCHEDULED, "scheduled")
    assert 55_000 < row.ready_at - row.enqueued_at <= 60_000


def test_a_run_after_that_has_passed_means_now() -> None:
    assert row_of(send.using(run_after=datetime.now(UTC) - timedelta(days=400)).enqueue()).state is State.PENDING


def test_a_naive_run_after_works_without_time_zones(emq: Settings) -> None:
    emq.USE_TZ = False

    row = row_of(send.using(run_after=datetime.now() + timedelta(seconds=60)).enqueue())

    assert 55_000 < row.ready_at - row.enqueued_at <= 60_000


def test_many_jobs_are_enqueued_in_order_with_few_calls(queue: Queue) -> None:
    calls_before = queue.client.info("commandstats")["cmdstat_evalsha"]["calls"]

    minted = enqueue_many(full.using(queue_name="default"), [((n % 3,), {"order_id": n}) for n in range(1_000)])

    assert queue.client.info("commandstats")["cmdstat_evalsha"]["calls"] - calls_before <= 6
    assert minted == sorted(set(minted))
    assert len(minted) == 1_000
    assert [queue.client.zcard(queue.keys.lane(f"user-{n}")) for n in range(3)] == [334, 333, 333]
    row = jobs.read(queue, minted[7])
    assert isinstance(row, Row)
    assert Message.unpack(row.body).payload == b'[[1],{"order_id":7}]'


def test_many_calls_are_all_checked_before_the_first_is_sent(queue: Queue) -> None:
    with pytest.raises(InvalidArguments, match=r"args\[0\]"):
        enqueue_many(send, [((1,), {}), (({2},), {})])

    assert queue.client.keys("*job*") == []


def test_no_calls_are_no_error() -> None:
    assert enqueue_many(send, []) == []


def test_many_jobs_work_on_any_backend(emq: Settings) -> None:
    framework = DjangoTask.__module__.removesuffix(".base")
    emq.TASKS = {"default": {"BACKEND": f"{framework}.backends.immediate.ImmediateBackend"}}

    assert len(enqueue_many(send, [((1,), {}), ((2,), {})])) == 2


def test_a_task_of_django_s_own_class_is_enqueued_with_the_queue_s_settings() -> None:
    own: Any = DjangoTask(
        func=plain, priority=3, queue_name="default", backend="default", run_after=None, takes_context=False
    )
    globals()["plain"] = own
    try:
        row = row_of(own.enqueue(1))
    finally:
        globals()["plain"] = own.func

    assert (row.priority, row.lease_ms) == (3, 30_000)


def test_a_task_that_a_worker_could_not_find_is_refused(queue: Queue) -> None:
    with pytest.raises(UnresolvableTask, match=f"{__name__}.renamed' is a function and no task"):
        other_name.enqueue(1)

    assert queue.client.keys("*job*") == []


def test_a_task_whose_name_another_one_took_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "__qualname__", "send")

    with pytest.raises(UnresolvableTask, match="is another task than the one to be enqueued"):
        task(plain).enqueue(1)


def test_a_task_of_the_main_module_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renamed, "__module__", "__main__")

    with pytest.raises(UnresolvableTask, match="workers can't import __main__"):
        other_name.using(priority=1).enqueue(1)


def test_a_backoff_function_of_another_task_can_not_travel() -> None:
    changed = send.using(max_failures=1)
    object.__setattr__(changed, "options", send.options.merged({"backoff": lambda failures: 1}))

    with pytest.raises(InvalidOption, match="can't travel with a job"):
        changed.enqueue()


def test_a_queue_that_vanished_from_the_settings_is_refused_at_the_next_enqueue(emq: Settings) -> None:
    emails = send.using(queue_name="emails")
    emails.enqueue()
    emq.TASKS = {"default": {**emq.TASKS["default"], "QUEUES": ["default"]}}

    with pytest.raises(UnknownQueue, match="queue 'emails' is not in") as refusal:
        emails.enqueue()
    assert isinstance(refusal.value, InvalidTask)


def test_two_aliases_on_one_server_keep_their_own_prefix(emq: Settings, redis_client: Any, prefix: str) -> None:
    second = {**emq.TASKS["default"], "OPTIONS": {"cache": "emq", "prefix": f"{prefix}b"}}
    emq.TASKS = {**emq.TASKS, "second": second}

    send.enqueue()
    result = send.using(backend="second").enqueue()

    assert result.backend == "second"
    assert len(redis_client.keys(f"{prefix}:*job*")) == 1
    [key] = redis_client.keys(f"{prefix}b:*job*")
    assert key.decode().endswith(result.id)
    assert result.task.get_backend().get_result(result.id).task == send.using(backend="second")


def test_coroutines_enqueue_with_aenqueue_only(queue: Queue) -> None:
    async def view() -> str:
        with pytest.raises(SynchronousOnlyOperation, match=r"await task\.aenqueue"):
            send.enqueue(1)
        return (await send.aenqueue(2)).id

    job_id = asyncio.run(view())

    assert queue.client.zrange(queue.keys.pending, 0, -1) == [job_id.encode()]


@pytest.fixture
def heard() -> Iterator[list[Any]]:
    """The results of `task_enqueued`, and whether each job was on the server by then."""
    seen: list[Any] = []

    def listen(sender: type, task_result: Any, **kwargs: Any) -> None:
        queue = get_bus().queue_of(task_result.id)
        seen.append((sender.__name__, task_result, bool(queue and jobs.read(queue, task_result.id))))

    task_enqueued.connect(listen)
    yield seen
    task_enqueued.disconnect(listen)


def test_the_signal_is_sent_once_the_server_has_the_job(heard: list[Any]) -> None:
    result = send.enqueue(1)

    assert heard == [("EchoMQBackend", result, True)]
    assert heard[0][1] is result


def test_the_signal_is_sent_for_each_of_many_jobs(heard: list[Any]) -> None:
    minted = enqueue_many(send, [((n,), {}) for n in range(3)])

    assert [(result.id, result.args, on_server) for _, result, on_server in heard] == [
        (job_id, [n], True) for n, job_id in enumerate(minted)
    ]


def test_a_receiver_that_raises_does_not_disturb_the_enqueue() -> None:
    def fail(**kwargs: Any) -> None:
        raise RuntimeError

    task_enqueued.connect(fail)
    try:
        assert row_of(send.enqueue())
    finally:
        task_enqueued.disconnect(fail)


def test_django_s_own_log_of_the_enqueue_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, framework_logger.name):
        result = send.enqueue()

    assert f"id={result.id} path={__name__}.send enqueued backend=default" in caplog.text


def test_a_server_that_is_down_raises_with_the_id(emq: Settings, tmp_path: Path) -> None:
    with Valkey(tmp_path / "valkey") as server:
        emq.CACHES = {**emq.CACHES, "emq": {**emq.CACHES["emq"], "LOCATION": server.url}}
        send.enqueue()
        server.kill()

        with pytest.raises(BusUnavailable, match=r"no answer from the server.*whether JOB\w{26} is enqueued\]"):
            send.enqueue()

        server.start()
        assert row_of(send.enqueue())


def test_a_server_that_hangs_is_not_asked_twice(emq: Settings, tmp_path: Path) -> None:
    with Valkey(tmp_path / "valkey") as server, Cutter(server.port) as cutter:
        entry = {**emq.CACHES["emq"], "LOCATION": cutter.url, "OPTIONS": {"SOCKET_TIMEOUT": 2}}
        emq.CACHES = {**emq.CACHES, "emq": entry}
        send.enqueue()
        before = cutter.seen(b"EVALSHA")
        with redis.Redis.from_url(server.url) as admin:
            admin.client_pause(10_000, all=False)
            with pytest.raises(BusUnavailable, match=r"Timeout.*not known whether"):
                send.enqueue()
            admin.client_unpause()

        assert cutter.seen(b"EVALSHA") == before + 1


def test_settings_that_lost_the_cache_alias_are_named(emq: Settings) -> None:
    emq.CACHES = {"default": emq.CACHES["default"]}

    with pytest.raises(ImproperlyConfiguredQueue, match="is no alias of CACHES"):
        send.enqueue()


def test_a_full_server_takes_nothing_and_says_so(emq: Settings, tmp_path: Path) -> None:
    with Valkey(tmp_path / "valkey") as server:
        emq.CACHES = {**emq.CACHES, "emq": {**emq.CACHES["emq"], "LOCATION": server.url}}
        send.enqueue()
        client = get_bus().client()
        client.config_set("maxmemory", 1)

        with pytest.raises(BusFull, match=r"memory limit.*\[JOB\w{26} is not enqueued\]"):
            send.enqueue("x" * 1000)
        with pytest.raises(BusFull, match=r"0 of 3 jobs are enqueued for sure, JOB\w{26} is the first of the others"):
            enqueue_many(send, [((n,), {}) for n in range(3)])

        assert len(client.keys("*job*")) == 1
        client.config_set("maxmemory", 0)
        send.enqueue()
        assert len(client.keys("*job*")) == 2
        client.close()


def test_a_reply_that_is_lost_on_the_way_makes_one_job(emq: Settings, valkey: Valkey, queue: Queue) -> None:
    with Cutter(valkey.port) as cutter:
        emq.CACHES = {**emq.CACHES, "emq": {**emq.CACHES["emq"], "LOCATION": cutter.url}}
        send.enqueue(1)
        cutter.cut_next(b"EVALSHA")

        result = send.enqueue(2)

        assert cutter.seen(b"EVALSHA") == 3
        assert cutter.seen(result.id.encode()) == 4  # its row and its own argument, said twice
    assert queue.client.zcard(queue.keys.pending) == 2


def test_threads_share_the_pool_without_mixing_replies() -> None:
    found: list[tuple[int, str]] = []

    def work(number: int) -> None:
        found.extend((number, send.enqueue(number, n).id) for n in range(50))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({job_id for _, job_id in found}) == 400
    for number, job_id in found[::20]:
        assert send.get_result(job_id).args[0] == number
