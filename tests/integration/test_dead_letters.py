"""Deaths move from the server to the database, each once, and back to work."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from echomq_django.bus import dead as bus_dead
from echomq_django.bus import ids, jobs
from echomq_django.bus.jobs import Death
from echomq_django.bus.message import Message
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import Failure, State
from echomq_django.connection import get_bus
from echomq_django.embedded import Postgres
from echomq_django.exceptions import BusUnavailable
from echomq_django.floor.dead_letters import discard, mirror, requeue
from echomq_django.models import DeadJob, OutboxJob
from echomq_django.signals import job_dead, job_requeued
from tests.bus import scenes

pytestmark = pytest.mark.django_db(transaction=True)

TRACEBACK = 'Traceback (most recent call last):\n  File "/srv/app/tasks.py", line 7, in send\n    raise Boom\n'


def test_a_death_becomes_a_row_with_all_that_a_requeue_needs(queue: Queue) -> None:
    body = Message("app.tasks.send", b'[[1, "x"], {"to": "a@example.org"}]', "default", {"t": "a"}, {"max_failures": 2})
    job = scenes.dead(queue, lane="blue", priority=7, max_stalled=None, lease_ms=4_000, body=body.pack())[0]

    [row] = mirror(queue, "default")

    stored = DeadJob.objects.get()
    assert row.pk == stored.pk
    assert (stored.job_id, stored.death_key, stored.death_no) == (job.job_id, str(job.token), 1)
    assert (stored.backend, stored.queue, stored.lane, stored.task) == ("default", "default", "blue", "app.tasks.send")
    assert bytes(stored.payload) == body.payload
    assert (stored.headers, stored.options) == (body.headers, body.options)
    assert (stored.args, stored.kwargs) == ([1, "x"], {"to": "a@example.org"})
    assert (stored.reason, stored.error_class, stored.error_message) == ("failed", "app.Boom", "no paper")
    assert (stored.attempts, stored.failures, stored.stalled) == (1, 1, 0)
    assert (stored.priority, stored.max_stalled, stored.lease_ms) == (7, None, 4_000)
    assert stored.state == DeadJob.State.DEAD
    assert abs(stored.died_at.timestamp() * 1000 - scenes.server_ms(queue)) < 60_000
    assert bus_dead.unmirrored(queue) == []
    assert jobs.read(queue, job.job_id) is None


def test_a_requeue_brings_a_job_back_into_its_group_and_without_its_expiry(queue: Queue) -> None:
    group = {"id": ids.mint("default"), "size": 2, "after": ids.mint("default")}
    scenes.dead(queue, extras={"group": group, "expires": 60_000})
    [row] = mirror(queue, "default")
    assert row.group == group

    requeue([row.pk], "ana")

    assert scenes.stored(queue, row.job_id).extras == {"group": group}


def test_the_server_forgets_nothing_before_the_commit(queue: Queue) -> None:
    job = scenes.dead(queue)[0]

    with transaction.atomic(), pytest.raises(RuntimeError, match="durable"):
        mirror(queue, "default")

    assert not DeadJob.objects.exists()
    assert scenes.stored(queue, job.job_id).state is State.DEAD


def test_listeners_hear_of_each_death_once_and_their_errors_stop_nothing(queue: Queue) -> None:
    scenes.dead(queue, 2)
    heard: list[dict[str, Any]] = []

    def listen(sender: Any, **facts: Any) -> None:
        heard.append(facts)
        raise LookupError("a listener of the project is broken")

    with connected(job_dead, listen):
        rows = mirror(queue, "default")
        assert mirror(queue, "default") == []

    assert [fact["dead_job"] for fact in heard] == rows
    assert {fact["job_id"] for fact in heard} == {row.job_id for row in rows}
    assert {(fact["queue"], fact["backend"]) for fact in heard} == {("default", "default")}


def test_three_processes_mirror_five_hundred_deaths_at_once_and_each_becomes_one_row(
    queue: Queue, postgres: Postgres
) -> None:
    for _ in range(5):
        scenes.dead(queue, 100)
    kept = kept_in_mind(queue)

    assert sum(mirrored_by_three_processes()) == 500
    assert len({row.job_id for row in DeadJob.objects.all()}) == DeadJob.objects.count() == 500

    first = DeadJob.objects.earliest("pk")
    requeue([first.pk], "ana")
    jobs.discard(queue, first.job_id)
    remembered_again(queue, kept)  # as if all three had been killed between COMMIT and forgetting

    mirrored_by_three_processes()
    assert DeadJob.objects.count() == 500
    assert DeadJob.objects.get(pk=first.pk).requeued_by == "ana"
    assert queue.client.keys(f"{queue.keys.base}job:*") == []
    log = (postgres.directory / "server.log").read_text().splitlines()  # of all tests
    assert not [line for line in log if "duplicate key" in line and "deadjob" in line]
    assert "deadlock" not in log


def test_a_job_that_dies_again_gets_a_second_row_and_the_first_keeps_its_history(queue: Queue) -> None:
    scenes.dead(queue)
    [first] = mirror(queue, "default")
    requeue([first.pk], "ana")
    [again] = jobs.claim(queue, scenes.W2, scenes.nonce(), 1)
    jobs.die(queue, scenes.W2, [Death(again.job_id, again.token, Failure("failed", "app.Other", "worse"))])

    [second] = mirror(queue, "default")

    first.refresh_from_db()
    assert (first.state, first.error_class, first.requeued_by) == ("requeued", "app.Boom", "ana")
    assert (second.state, second.error_class) == ("dead", "app.Other")
    assert (second.job_id, second.death_no, second.attempts, second.failures) == (first.job_id, 2, 2, 1)
    assert second.death_key != first.death_key


def test_an_error_full_of_hostile_text_is_stored_escaped_and_shortened_with_a_note(queue: Queue) -> None:
    row = scenes.active(queue, body=Message("app.t", rb'[["\u0000\ud800", 1e999], {"\u0000": "<script>"}]').pack())[0]
    huge = "<script>alert(1)</script>\ud800\0" + "x" * 5_000_000 + "the end"
    jobs.die(queue, scenes.W1, [Death(row.job_id, row.token, Failure("failed", "app.\0Boom", huge, huge))])
    queue.client.append(queue.keys.job(row.job_id), b"\xff\xfe")

    [stored] = mirror(queue, "default")

    assert stored.error_class == "app.\\x00Boom"
    assert stored.error_message.startswith("<script>alert(1)</script>\\ud800\\x00xxx")
    assert "characters left out" in stored.error_message
    assert len(stored.error_message) <= 4_000
    assert len(stored.traceback) <= 40_000
    assert stored.traceback.endswith("the end\ufffd\ufffd")
    assert (stored.args, stored.kwargs) == (["\\x00\\ud800", "inf"], {"\\x00": "<script>"})
    assert bytes(stored.payload) == rb'[["\u0000\ud800", 1e999], {"\u0000": "<script>"}]'
    assert mirror(queue, "default") == []


@pytest.mark.parametrize("payload", [b"\xff\x00", b"[1, 2", b"[[]]", b"[" * 100_000, b'[{"a": 1}, 5, 6]', b"7" * 9_000])
def test_a_payload_that_is_no_json_of_arguments_is_kept_byte_for_byte(queue: Queue, payload: bytes) -> None:
    scenes.dead(queue, body=Message("app.tasks.send", payload).pack())

    [stored] = mirror(queue, "default")

    assert bytes(stored.payload) == payload
    assert (stored.args, stored.kwargs) == (None, None)
    assert stored.is_readable


@pytest.mark.broken_keyspace
@pytest.mark.parametrize("raw", [None, b"", b"garbage", b"\x01" + b"\xff" * 40, b"\x02 of a newer release"])
def test_a_row_that_cannot_be_read_becomes_an_unreadable_death_and_holds_up_nobody(
    queue: Queue, raw: bytes | None
) -> None:
    broken, sound = (row.job_id for row in scenes.dead(queue, 2))
    queue.client.delete(queue.keys.job(broken))
    if raw is not None:
        queue.client.set(queue.keys.job(broken), raw)

    assert {row.job_id for row in mirror(queue, "default")} == {broken, sound}
    assert mirror(queue, "default") == []
    assert not queue.client.exists(queue.keys.job(broken))

    stored = DeadJob.objects.get(job_id=broken)
    assert stored.reason == DeadJob.UNREADABLE
    assert stored.error_message
    assert bytes(stored.payload) == (raw or b"")
    assert requeue([stored.pk], "ana") == 0


@pytest.mark.broken_keyspace
def test_a_row_of_another_type_becomes_an_unreadable_death_that_can_be_restored(queue: Queue) -> None:
    broken = scenes.dead(queue)[0].job_id
    key = queue.keys.job(broken)
    queue.client.delete(key)
    queue.client.hset(key, "state", "dead")

    [stored] = mirror(queue, "default")

    assert (stored.job_id, stored.reason) == (broken, DeadJob.UNREADABLE)
    assert not queue.client.exists(key)
    queue.client.restore(key, 0, bytes(stored.payload))
    assert queue.client.hgetall(key) == {b"state": b"dead"}
    assert mirror(queue, "default") == []


def test_a_body_that_cannot_be_taken_apart_keeps_its_bytes(queue: Queue) -> None:
    job = scenes.dead(queue, body=b"no separator in here")[0]

    [stored] = mirror(queue, "default")

    assert stored.reason == DeadJob.UNREADABLE
    assert (stored.job_id, stored.death_key) == (job.job_id, str(job.token))
    assert b"no separator in here" in bytes(stored.payload)
    assert jobs.read(queue, job.job_id) is None


def test_one_row_that_the_database_refuses_does_not_hold_up_the_others(queue: Queue) -> None:
    refused = scenes.dead(queue, body=Message("app.tasks.refused", b"[[],{}]").pack())[0]
    scenes.dead(queue, 199)

    with constraint("CHECK (task <> 'app.tasks.refused')"):
        rows = mirror(queue, "default")

    assert len(rows) == 200
    stored = DeadJob.objects.get(job_id=refused.job_id)
    assert stored.reason == DeadJob.UNREADABLE
    assert "the database refuses it" in stored.error_message
    assert b"app.tasks.refused" in bytes(stored.payload)
    assert bus_dead.unmirrored(queue) == []


def test_what_the_database_does_not_store_at_all_is_not_forgotten(queue: Queue) -> None:
    job = scenes.dead(queue)[0]

    with constraint("CHECK (queue <> 'default')"), pytest.raises(Exception, match="violates check constraint"):
        mirror(queue, "default")

    assert scenes.stored(queue, job.job_id).state is State.DEAD


def test_a_requeued_job_runs_again_with_its_own_payload_and_new_budgets(queue: Queue) -> None:
    died = scenes.dead(queue, lane="blue", priority=5)[0]
    [row] = mirror(queue, "default")

    assert requeue([row.pk], "ana") == 1

    [revived] = jobs.claim(queue, scenes.W2, scenes.nonce(), 1)
    assert (revived.job_id, revived.body, revived.lane, revived.priority) == (died.job_id, died.body, "blue", 5)
    assert (revived.failures, revived.stalled, revived.attempts, revived.deaths) == (0, 0, 2, 1)
    assert revived.token.fence > died.token.fence
    row.refresh_from_db()
    assert (row.state, row.requeued_by) == ("requeued", "ana")
    assert row.requeued_at is not None
    assert not OutboxJob.objects.exists()


def test_a_requeue_works_when_the_server_has_lost_everything(queue: Queue) -> None:
    scenes.dead(queue)
    [row] = mirror(queue, "default")
    queue.client.flushall()

    requeue([row.pk], "ana")

    assert [job.job_id for job in jobs.claim(queue, scenes.W1, scenes.nonce(), 9)] == [row.job_id]


def test_requeueing_twice_is_requeueing_once(queue: Queue) -> None:
    scenes.dead(queue, 2)
    pks = [row.pk for row in mirror(queue, "default")]

    assert requeue(pks[:1], "ana") == 1
    assert requeue(pks, "bob") == 1
    assert requeue(pks, "bob") == 0

    assert list(DeadJob.objects.order_by("pk").values_list("requeued_by", flat=True)) == ["ana", "bob"]
    assert len(jobs.claim(queue, scenes.W1, scenes.nonce(), 9)) == 2


def test_of_four_operators_at_once_one_requeues_the_job(queue: Queue) -> None:
    scenes.dead(queue, 20)
    pks = [row.pk for row in mirror(queue, "default")]
    together = threading.Barrier(4)

    def operate(name: str, mine: list[int]) -> int:
        together.wait(10)
        try:
            return requeue(mine, name)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as operators:
        changed = list(operators.map(operate, "abcd", [pks, pks[::-1], pks, pks[::-1]]))

    assert sum(changed) == 20
    assert len(jobs.claim(queue, scenes.W1, scenes.nonce(), 99)) == 20


def test_a_requeue_that_is_rolled_back_pushes_nothing(queue: Queue) -> None:
    scenes.dead(queue)
    [row] = mirror(queue, "default")

    with transaction.atomic():
        requeue([row.pk], "ana")
        transaction.set_rollback(True)

    row.refresh_from_db()
    assert row.state == DeadJob.State.DEAD
    assert not OutboxJob.objects.exists()
    assert jobs.claim(queue, scenes.W1, scenes.nonce(), 9) == []


def test_listeners_hear_of_a_requeue_after_its_commit(queue: Queue) -> None:
    scenes.dead(queue)
    [row] = mirror(queue, "default")
    heard: list[tuple[bool, str, str, str]] = []

    def listen(sender: Any, job_id: str, queue: str, backend: str, **facts: Any) -> None:
        heard.append((connection.in_atomic_block, job_id, queue, backend))

    with connected(job_requeued, listen):
        requeue([row.pk], "ana")

    assert heard == [(False, row.job_id, "default", "default")]


def test_a_discarded_job_keeps_its_row_and_its_reason_and_cannot_be_requeued(queue: Queue) -> None:
    scenes.dead(queue)
    [row] = mirror(queue, "default")

    assert discard([row.pk], "ana", "order was cancelled") == 1
    assert discard([row.pk], "bob") == 0
    assert requeue([row.pk], "bob") == 0

    row.refresh_from_db()
    assert (row.state, row.discarded_by, row.discard_reason) == ("discarded", "ana", "order was cancelled")


def test_discarding_makes_the_server_forget_that_death_only(queue: Queue) -> None:
    job = scenes.dead(queue)[0]
    kept = kept_in_mind(queue)
    [row] = mirror(queue, "default")
    remembered_again(queue, kept)

    discard([row.pk], "ana")

    assert jobs.read(queue, job.job_id) is None
    assert bus_dead.unmirrored(queue) == []


def test_discarding_works_while_the_server_is_down(outage: Any, queue: Queue) -> None:
    scenes.dead(queue)
    [row] = mirror(queue, "default")

    with outage():
        assert discard([row.pk], "ana") == 1


def test_mirroring_says_that_the_server_is_down(outage: Any) -> None:
    with outage(), pytest.raises(BusUnavailable):
        mirror(get_bus().queue("default"), "default")


@contextmanager
def connected(signal: Any, listener: Any) -> Iterator[None]:
    signal.connect(listener)
    try:
        yield
    finally:
        signal.disconnect(listener)


@contextmanager
def constraint(condition: str) -> Iterator[None]:
    """Let the database refuse rows, as one does that is stricter than this project knows."""
    table = DeadJob._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT strict {condition}")
        try:
            yield
        finally:
            cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT strict")


def kept_in_mind(queue: Queue) -> dict[str, Any]:
    """Return the deaths of the server with their rows."""
    ids: Any = queue.client.zrange(queue.keys.dead, 0, -1, withscores=True)
    return {job_id.decode(): (died_at, queue.client.get(queue.keys.job(job_id.decode()))) for job_id, died_at in ids}


def remembered_again(queue: Queue, deaths: dict[str, Any]) -> None:
    """Put the deaths back."""
    for job_id, (died_at, raw) in deaths.items():
        queue.client.set(queue.keys.job(job_id), raw)
        queue.client.zadd(queue.keys.dead, {job_id: died_at})


def mirrored_by_three_processes() -> list[int]:
    """Let three processes mirror all there is, starting together, and return how many each took over."""
    root = str(Path(__file__).parents[2])
    command = [sys.executable, str(Path(__file__).with_name("mirroring.py"))]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, cwd=root, env={**os.environ, "PYTHONPATH": root}, **pipes) for _ in range(3)]
    try:
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        taken = [json.loads(process.communicate(timeout=60)[0]) for process in processes]
        assert [process.returncode for process in processes] == [0, 0, 0]
        return taken
    finally:
        for process in processes:
            process.kill()
            process.communicate()
