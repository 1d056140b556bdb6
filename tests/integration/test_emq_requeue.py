"""`manage.py emq_requeue`: dead jobs that an operator names or describes go back to their queues."""

import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from echomq_django.bus import jobs
from echomq_django.bus.jobs import Death
from echomq_django.bus.message import Message
from echomq_django.bus.queue import Queue, count
from echomq_django.bus.row import Failure
from echomq_django.connection import get_bus
from echomq_django.floor.dead_letters import discard, mirror
from echomq_django.management.commands import emq_requeue
from echomq_django.models import DeadJob
from echomq_django.signals import job_requeued
from tests.bus import scenes

pytestmark = pytest.mark.django_db(transaction=True)


def died(
    queue: Queue, number: int = 1, *, task: str = "app.tasks.send", failure: Failure = scenes.FAILURE
) -> list[str]:
    """Let `number` jobs of a task die of `failure`, and mirror them."""
    rows = scenes.active(queue, number, body=Message(task, json.dumps([[number], {}]).encode()).pack())
    jobs.die(queue, scenes.W1, [Death(row.job_id, row.token, failure) for row in rows])
    return [row.job_id for row in mirror(queue, "default")]


def requeue(*words: str, **options: Any) -> str:
    """Run the command and return what it writes."""
    out = StringIO()
    call_command("emq_requeue", *words, stdout=out, stderr=out, **options)
    return out.getvalue()


def dead() -> set[str]:
    """Return the ids of the jobs that are dead still."""
    return set(DeadJob.objects.filter(state="dead").values_list("job_id", flat=True))


def test_nothing_is_requeued_unasked(queue: Queue) -> None:
    died(queue)
    with pytest.raises(CommandError, match="name ids, or filters, or --all") as refused:
        requeue("--limit", "5")
    assert refused.value.returncode == 2
    assert len(dead()) == 1


def test_a_job_that_is_named_goes_back_with_the_name_of_who_did_it(queue: Queue) -> None:
    first, second = died(queue, 2)

    assert "1 requeued by ana" in requeue(first, "--by", "ana")

    assert dead() == {second}
    assert DeadJob.objects.get(job_id=first).requeued_by == "ana"
    assert [row.job_id for row in jobs.claim(queue, scenes.W1, scenes.nonce(), 9)] == [first]


def test_said_twice_it_happens_once_and_tells_who_was_first(queue: Queue) -> None:
    (job_id,) = died(queue)
    requeue(job_id, by="ana")

    told = requeue(job_id, by="bo")

    assert "0 requeued by bo" in told
    assert "1 requeued before, the last by ana at " in told
    assert count(queue).pending == 1


def test_an_id_that_nobody_knows_is_told_and_the_others_go_back(queue: Queue) -> None:
    (job_id,) = died(queue)
    out = StringIO()

    with pytest.raises(SystemExit) as left:
        call_command("emq_requeue", "JOBnope", job_id, stdout=out, stderr=out)

    assert left.value.code == 1
    assert "JOBnope: no dead job has this id" in out.getvalue()
    assert dead() == set()


def test_each_filter_narrows_what_goes_back(queue: Queue) -> None:
    emails = get_bus().queue("emails")
    sent, other = died(queue), died(queue, task="app.tasks.other")
    stalled = died(queue, failure=Failure("stalled"))
    broken = died(queue, failure=Failure("failed", "lib.errors.Timeout", "late"))
    mailed = died(emails)
    fingerprint = DeadJob.objects.get(job_id=broken[0]).fingerprint

    cases: list[tuple[list[str], list[str]]] = [
        (["--task", "app.tasks.other"], other),
        (["--reason", "stalled"], stalled),
        (["--error", "Timeout"], broken),
        (["--error", "lib.errors.Timeout", "--queue", "default"], broken),
        (["--error", fingerprint], broken),
        (["--queue", "emails"], mailed),
        (["--backend", "other"], []),
        (["--all", "--backend", "default"], [*sent, *other, *stalled, *broken, *mailed]),
    ]
    for words, expected in cases:
        assert set(selected(*words).values_list("job_id", flat=True)) == set(expected)
    requeue("--error", "Timeout")
    assert dead() == {*sent, *other, *stalled, *mailed}


def selected(*words: str) -> Any:
    """Return what the command would select."""
    command = emq_requeue.Command()
    options = vars(command.create_parser("manage.py", "emq_requeue").parse_args(words))
    return emq_requeue._selected(options)


@pytest.mark.parametrize("use_tz", [True, False])
def test_the_time_of_the_death_is_a_filter(queue: Queue, settings: Settings, use_tz: bool) -> None:
    settings.USE_TZ = use_tz
    old, new = died(queue, 2)
    now = datetime.now(UTC) if use_tz else datetime.now()
    DeadJob.objects.filter(job_id=old).update(died_at=now - timedelta(days=3))
    yesterday = (now - timedelta(days=1)).isoformat()

    assert selected("--since", yesterday).get().job_id == new
    assert selected("--until", yesterday).get().job_id == old
    assert selected("--until", yesterday[:10]).get().job_id == old


def test_what_is_no_time_is_refused(queue: Queue) -> None:
    for text in ("yesterday", "2026-13-45"):
        with pytest.raises(CommandError, match=text):
            requeue("--since", text)


def test_a_dry_run_tells_what_would_be_done_and_does_nothing(queue: Queue) -> None:
    died(queue, 3)
    died(queue, task="app.tasks.other")

    told = requeue("--all", "--dry-run", "--limit", "2")

    assert "2 would be requeued, of:" in told
    assert "  3 default app.tasks.send (failed)" in told
    assert "  1 default app.tasks.other (failed)" in told
    assert len(dead()) == 4


def test_a_limit_takes_the_oldest(queue: Queue) -> None:
    ids = died(queue, 5)
    oldest = list(DeadJob.objects.order_by("pk").values_list("job_id", flat=True))[:2]

    requeue("--all", limit=2)

    assert dead() == set(ids) - set(oldest)


def test_many_are_taken_in_chunks(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emq_requeue, "_CHUNK", 10)
    for _ in range(3):
        died(queue, 15)

    assert [len(chunk) for chunk in emq_requeue._chunks(DeadJob.objects.all(), None)] == [10, 10, 10, 10, 5]
    assert "45 requeued" in requeue("--all")
    assert count(queue).pending == 45


def test_what_dies_again_meanwhile_is_not_requeued_again(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emq_requeue, "_CHUNK", 1)
    died(queue, 3)

    def die_again(**facts: Any) -> None:
        for row in jobs.claim(queue, scenes.W1, scenes.nonce(), 9):
            jobs.die(queue, scenes.W1, [scenes.death(row)])
        mirror(queue, "default")

    job_requeued.connect(die_again)
    try:
        assert "3 requeued" in requeue("--all")
    finally:
        job_requeued.disconnect(die_again)
    assert DeadJob.objects.filter(state="dead").count() == 3


@pytest.mark.broken_keyspace
def test_what_was_discarded_or_can_not_be_read_is_told_and_left_alone(queue: Queue) -> None:
    discarded, broken, sound = (row.job_id for row in scenes.dead(queue, 3))
    queue.client.set(queue.keys.job(broken), b"garbage")
    mirror(queue, "default")
    discard([DeadJob.objects.get(job_id=discarded).pk], "ana")

    told = requeue("--all")

    assert "1 requeued" in told
    assert "1 discarded before, the last by ana" in told
    assert "1 can't be read" in told
    assert "left alone" not in told
    assert [row.job_id for row in jobs.claim(queue, scenes.W1, scenes.nonce(), 9)] == [sound]


def test_a_server_that_is_away_gets_the_jobs_later_and_the_operator_is_told(queue: Queue, outage: Any) -> None:
    died(queue, 2)
    with outage():
        assert "2 wait in the outbox" in requeue("--all")
    assert count(queue).pending == 0
    assert dead() == set()
