"""Periodic jobs: what `schedule()` writes and refuses, and how a keeper and a cluster fire it."""

import json
import logging
import re
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django_q.conf import Conf
from django_q.models import OrmQ, Schedule
from django_q.scheduler import scheduler as cluster_turn
from pytest_django import Settings

from echomq_django import schedule, task
from echomq_django.bus import jobs, limits
from echomq_django.bus.message import Message
from echomq_django.bus.queue import Queue, count
from echomq_django.bus.row import Row
from echomq_django.bus.schedule import last_slots
from echomq_django.exceptions import (
    BusError,
    EchoMQError,
    InvalidArguments,
    InvalidName,
    InvalidOption,
    InvalidSchedule,
    InvalidSetting,
)
from echomq_django.scheduler import Scheduler
from echomq_django.schedules import FIRE, fire
from tests.chaos.waiting import until

pytestmark = pytest.mark.django_db

LONG_AGO = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


@task
def report(number: int = 0, *, to: str = "") -> None:
    pass


@task(unique="done")
def alone() -> None:
    pass


@task(lane=lambda tenant: f"tenant-{tenant}", expires=60)
def of_tenant(tenant: str) -> None:
    pass


class Stamp:
    """A middleware that leaves a header."""

    def enqueue(self, passage: Any) -> None:
        passage.headers["stamp"] = "yes"


def due(row: Any, **changes: Any) -> Any:
    """Let the next run of a row have come long ago."""
    Schedule.objects.filter(pk=row.pk).update(**{"next_run": LONG_AGO, **changes})
    row.refresh_from_db()
    return row


def by_hand(**columns: Any) -> Any:
    """Return a row as an operator may leave it: daily, due long ago."""
    row = Schedule.objects.create(**{"func": FIRE, "cluster": "emq", "schedule_type": "D", **columns})
    return due(row)


def waiting(queue: Queue) -> list[Row]:
    """Return the jobs that wait."""
    found = [jobs.read(queue, one.decode()) for one in queue.client.zrange(queue.keys.pending, 0, -1)]
    return [one for one in found if isinstance(one, Row)]


def said(caplog: pytest.LogCaptureFixture, level: int = logging.ERROR) -> list[str]:
    """Return what was logged at a level."""
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def test_a_schedule_is_a_row_of_django_q2(queue: Queue) -> None:
    row = schedule(
        report.using(priority=5, queue_name="emails"), cron="*/5 * * * *", name="r", args=[1], kwargs={"to": "ä"}
    )

    row.refresh_from_db()
    assert (row.func, row.cluster, row.schedule_type, row.cron) == (FIRE, "emq", "C", "*/5 * * * *")
    assert (row.intended_date_kwarg, row.repeats) == ("due", -1)
    assert row.next_run > datetime.now(UTC)
    assert row.next_run.minute % 5 == 0
    order = json.loads(eval(row.args))
    del order["asked"]
    assert order == {
        "name": "r",
        "task": report.module_path,
        "args": [1],
        "kwargs": {"to": "ä"},
        "options": {},
        "queue_name": "emails",
        "priority": 5,
        "backend": "default",
    }


@pytest.mark.parametrize(
    ("every", "columns"),
    [
        (60, ("I", 1, None)),
        (timedelta(days=1), ("I", 1440, None)),
        (32_767 * 60, ("I", 32_767, None)),
        (30, ("C", None, "* * * * * */30")),
        (timedelta(seconds=1), ("C", None, "* * * * * */1")),
    ],
)
def test_an_interval_is_what_django_q2_can_express(emq: Settings, every: Any, columns: Any) -> None:
    before = datetime.now(UTC)
    row = schedule(report, every=every, name="r")

    assert (row.schedule_type, row.minutes, row.cron) == columns
    interval = every if isinstance(every, timedelta) else timedelta(seconds=every)
    assert before < row.next_run <= datetime.now(UTC) + interval


@pytest.mark.parametrize(
    ("call", "error", "complaint"),
    [
        ({}, InvalidOption, "either cron or every"),
        ({"cron": "0 * * * *", "every": 60}, InvalidOption, "a schedule has either cron or every"),
        ({"cron": "99 * * * *"}, InvalidOption, "out of range"),
        ({"cron": "0 0 30 2 *"}, InvalidOption, "is never due"),
        ({"cron": "R * * * *"}, InvalidOption, "without R"),
        ({"every": 0}, InvalidOption, "every = 0: must be whole minutes"),
        ({"every": 7}, InvalidOption, "every = 7: must be"),
        ({"every": 90}, InvalidOption, "every = 90: must be"),
        ({"every": 60.5}, InvalidOption, "must be whole minutes"),
        ({"every": True}, InvalidOption, "every = True: must be whole minutes"),
        ({"every": timedelta(days=30)}, InvalidOption, "at most 32,767"),
        ({"every": 60, "name": ""}, InvalidOption, "name = ''"),
        ({"every": 60, "name": "x" * 101}, InvalidOption, "1 to 100 characters"),
        ({"every": 60, "timezone": "Europe/Berln"}, InvalidOption, "did you mean 'Europe/Berlin'"),
        ({"every": 60, "args": [{1}]}, InvalidArguments, r"args\[0\] is of the type set"),
        ({"every": 60, "task": of_tenant, "args": ["\n"]}, InvalidName, "lane"),
        ({"every": 60, "task": report.using(run_after=LONG_AGO)}, InvalidOption, "run_after"),
        ({"every": 60, "task": report.using(lane=lambda *args: "x")}, InvalidOption, "only data can travel"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_can_not_be_scheduled_is_refused_at_once(
    emq: Settings, call: dict[str, Any], error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        schedule(call.pop("task", report), **{"name": "r", **call})
    assert not Schedule.objects.filter(func=FIRE).exists()


def test_a_backend_without_a_queue_is_refused(emq: Settings) -> None:
    emq.TASKS = {**emq.TASKS, "other": {"BACKEND": dummy_backend()}}

    with pytest.raises(InvalidOption, match="no backend of this queue"):
        schedule(report.using(backend="other"), every=60, name="r")


def dummy_backend() -> str:
    """Return the path of the dummy backend of the framework in use."""
    from echomq_django.framework import BaseTaskBackend

    return BaseTaskBackend.__module__.removesuffix(".base") + ".dummy.DummyBackend"


def test_without_django_q2_the_error_says_what_to_add(emq: Settings) -> None:
    emq.INSTALLED_APPS = [app for app in emq.INSTALLED_APPS if app != "django_q"]

    with pytest.raises(InvalidSetting, match="'django_q' is not in INSTALLED_APPS"):
        schedule(report, every=60, name="r")


def test_the_same_call_again_keeps_what_an_operator_has_edited(emq: Settings) -> None:
    row = schedule(report, cron="0 6 * * *", name="r")
    due(row, cron="0 7 * * *", repeats=0)

    again = schedule(report, cron="0 6 * * *", name="r")

    assert (again.pk, again.cron, again.repeats, again.next_run) == (row.pk, "0 7 * * *", 0, LONG_AGO)


def test_another_call_of_the_same_name_changes_the_row(emq: Settings) -> None:
    row = schedule(report, cron="0 6 * * *", name="r")
    due(row, cron="0 7 * * *", repeats=0)

    again = schedule(report, every=120, name="r", args=[2])

    assert (again.pk, again.schedule_type, again.minutes, again.cron) == (row.pk, "I", 2, None)
    assert again.next_run > datetime.now(UTC)
    assert again.repeats == 0  # an operator's pause stays
    assert Schedule.objects.filter(name="r").count() == 1


def test_the_row_of_somebody_else_is_not_touched(emq: Settings) -> None:
    theirs = Schedule.objects.create(name="r", func="math.floor", args="1.5")

    with pytest.raises(InvalidOption, match=r"that runs math.floor has it"):
        schedule(report, every=60, name="r")
    theirs.refresh_from_db()
    assert theirs.func == "math.floor"


def test_a_row_that_two_processes_wrote_at_once_becomes_one(emq: Settings) -> None:
    row = schedule(report, every=60, name="r")
    Schedule.objects.create(name="r", func=FIRE, args=row.args)

    assert schedule(report, every=60, name="r").pk == row.pk
    assert Schedule.objects.filter(name="r").count() == 1


def test_a_due_row_is_fired_once_and_its_next_run_is_ahead(queue: Queue) -> None:
    row = due(schedule(report.using(priority=7), every=60, name="r", args=[1], kwargs={"to": "x"}))

    assert 0 < Scheduler().turn() <= 5
    Scheduler().turn()

    [job] = waiting(queue)
    message = Message.unpack(job.body)
    assert (message.task, job.priority) == (report.module_path, 7)
    assert json.loads(message.payload) == [[1], {"to": "x"}]
    row.refresh_from_db()
    assert 0 < (row.next_run - datetime.now(UTC)).total_seconds() <= 60
    assert (row.next_run - LONG_AGO).total_seconds() % 60 == 0
    assert datetime.fromisoformat(last_slots(queue)["r"]) == row.next_run - timedelta(minutes=1)


def test_after_an_outage_only_the_last_slot_is_fired_and_the_log_says_so(
    queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    row = due(schedule(report, cron="0 * * * *", name="r"), next_run=datetime.now(UTC) - timedelta(days=4))

    Scheduler().turn()

    assert count(queue).pending == 1
    [line] = said(caplog, logging.WARNING)
    assert line.startswith(f"schedule 'r' (row {row.pk} of django-q2) was due at ")
    assert "of all that it missed, only" in line
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    assert datetime.fromisoformat(last_slots(queue)["r"]) == hour


def test_a_death_between_push_and_save_fires_nothing_twice(queue: Queue) -> None:
    row = due(schedule(report, every=60, name="r"))
    Scheduler().turn()
    due(row)  # as if the row had never been saved

    Scheduler().turn()

    assert count(queue).pending == 1
    row.refresh_from_db()
    assert row.next_run > datetime.now(UTC)


def test_a_run_now_in_the_admin_does_not_repeat_a_slot_of_a_cron_expression(queue: Queue) -> None:
    row = due(schedule(report, cron="0 6 * * *", name="r"))
    Scheduler().turn()

    due(row, next_run=datetime.now(UTC))
    Scheduler().turn()

    assert count(queue).pending == 1


def test_a_paused_queue_takes_its_slots_and_a_paused_schedule_fires_none(queue: Queue) -> None:
    limits.pause(queue, by="ana")
    due(schedule(report, every=60, name="r"))
    due(schedule(report, every=60, name="paused"), repeats=0)

    Scheduler().turn()

    assert count(queue).pending == 1
    assert last_slots(queue).keys() == {"r"}


def test_lanes_expiry_and_headers_are_those_of_any_enqueue(queue: Queue, emq: Settings) -> None:
    emq.TASKS["default"]["OPTIONS"]["middleware"] = [f"{__name__}.Stamp"]
    emq.TASKS = {**emq.TASKS}
    due(schedule(of_tenant, every=60, name="r", args=["acme"]))

    Scheduler().turn()

    [job_id] = queue.client.zrange(queue.keys.lane("tenant-acme"), 0, -1)
    job = jobs.read(queue, job_id.decode())
    assert isinstance(job, Row)
    assert Message.unpack(job.body).headers == {"stamp": "yes"}
    assert job.extras == {"expires": 60_000}


def test_a_slot_of_a_unique_task_merges_into_the_job_that_waits(queue: Queue) -> None:
    alone.enqueue()
    due(schedule(alone, every=60, name="r"))

    Scheduler().turn()

    assert count(queue).pending == 1
    assert "r" in last_slots(queue)


def test_a_row_by_hand_needs_no_more_than_a_name_and_a_task(queue: Queue) -> None:
    as_python = f"{{'name': 'a', 'task': '{report.module_path}'}}"
    as_text = repr(json.dumps({"name": "b", "task": report.module_path, "kwargs": {"to": "x"}}))
    as_json = json.dumps({"name": "c", "task": report.module_path, "args": [None, True]})
    made = [by_hand(args=text) for text in (as_python, as_text, as_json.replace("true", "1").replace("null", "2"))]

    Scheduler().turn()

    assert last_slots(queue).keys() == {"a", "b", "c"}
    for row in made:
        row.refresh_from_db()
        assert (row.next_run.hour, row.next_run > datetime.now(UTC)) == (12, True)


def test_a_row_that_is_to_run_once_goes_and_one_with_a_number_of_runs_is_counted_down(queue: Queue) -> None:
    order = {"name": "a", "task": report.module_path}
    once = by_hand(args=json.dumps(order), schedule_type="O")
    twice = by_hand(args=json.dumps({**order, "name": "b"}), repeats=2)
    last = by_hand(args=json.dumps({**order, "name": "c"}), schedule_type="O", repeats=1)

    Scheduler().turn()

    assert count(queue).pending == 3
    assert not Schedule.objects.filter(pk=once.pk).exists()
    assert dict(Schedule.objects.filter(pk__in=[twice.pk, last.pk]).values_list("pk", "repeats")) == {
        twice.pk: 1,
        last.pk: 0,
    }


BROKEN = {
    "another function": ({"func": "math.floor", "args": "1.5"}, r"its function is 'math.floor': set it to 'echomq"),
    "no arguments": ({}, r"its arguments are None"),
    "no JSON": ({"args": "1, 2, 3"}, r"its arguments are \(1, 2, 3\): set them to"),
    "no name": ({"args": "{'task': 'a.b'}"}, "its arguments are"),
    "no task": ({"args": "{'name': 'a'}"}, "its arguments are"),
    "bad code": ({"args": "((((" * 50}, "its arguments are"),
    "unknown task": ({"args": "{'name': 'a', 'task': 'no.such'}"}, "no task at 'no.such'"),
    "unknown option": (
        {"args": repr({"name": "a", "task": report.module_path, "options": {"leese": 1}})},
        "did you mean 'lease'",
    ),
    "bad zone": (
        {"args": repr({"name": "a", "task": report.module_path, "timezone": "Mars"})},
        "'Mars' is no time zone",
    ),
    "bad cron": (
        {"args": repr({"name": "a", "task": report.module_path}), "schedule_type": "C", "cron": "x y z"},
        "cron = 'x y z'",
    ),
    "no cron": ({"args": repr({"name": "a", "task": report.module_path}), "schedule_type": "C"}, "cron = None"),
    "unknown type": ({"args": repr({"name": "a", "task": report.module_path}), "schedule_type": "??"}, ""),
    "unknown queue": (
        {"args": repr({"name": "a", "task": report.module_path, "queue_name": "eMails"})},
        "did you mean 'emails'",
    ),
    "unknown backend": ({"args": repr({"name": "a", "task": report.module_path, "backend": "no"})}, "no"),
}


def insert(**columns: Any) -> Any:
    """Write a row as nobody should: past the checks of django-q2."""
    row = Schedule(
        **{"name": "bad", "func": FIRE, "cluster": "emq", "schedule_type": "D", "next_run": LONG_AGO} | columns
    )
    [row] = Schedule.objects.bulk_create([row])
    return row


@pytest.mark.parametrize(("columns", "complaint"), BROKEN.values(), ids=BROKEN)
def test_a_malformed_row_harms_nobody_and_says_once_what_is_wrong_with_it(
    queue: Queue, caplog: pytest.LogCaptureFixture, columns: dict[str, Any], complaint: str
) -> None:
    bad = insert(**columns)
    for number in range(3):
        due(schedule(report, every=60, name=f"good {number}"), next_run=LONG_AGO + timedelta(days=number - 1))
    keeper = Scheduler()

    for _ in range(3):
        keeper.turn()
        keeper._resting.clear()

    assert last_slots(queue).keys() == {"good 0", "good 1", "good 2"}
    [line] = said(caplog)
    assert line.startswith(f"schedule 'bad' (row {bad.pk} of django-q2) is not fired: ")
    assert re.search(complaint, line)
    bad.refresh_from_db()
    assert bad.next_run == LONG_AGO  # nothing is skipped in silence


def test_a_row_that_is_cured_is_fired_and_the_log_says_so(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bad = insert(args="{'name': 'a', 'task': 'no.such'}")
    keeper = Scheduler()
    keeper.turn()

    Schedule.objects.filter(pk=bad.pk).update(args=repr({"name": "a", "task": report.module_path}))
    keeper._resting.clear()
    keeper.turn()

    assert count(queue).pending == 1
    assert said(caplog, logging.INFO)[-1].endswith("is fired again")


def test_more_broken_rows_than_one_turn_looks_at_hold_no_other_up(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("echomq_django.scheduler._MAX_ROWS", 2)
    for number in range(5):
        insert(name=f"bad {number}")
    due(schedule(report, every=60, name="good"), next_run=LONG_AGO + timedelta(days=1))
    keeper = Scheduler()

    for _ in range(3):
        keeper.turn()

    assert count(queue).pending == 1


def test_while_the_server_is_away_rows_stay_due_and_are_fired_once_when_it_is_back(queue: Queue, outage: Any) -> None:
    row = due(schedule(report, every=60, name="r"))
    keeper = Scheduler()

    cut: AbstractContextManager[None] = outage()
    with cut, pytest.raises(BusError):
        keeper.turn()
    row.refresh_from_db()
    assert row.next_run == LONG_AGO

    keeper.turn()
    assert count(queue).pending == 1


def test_one_server_that_is_away_does_not_keep_another_one_waiting(queue: Queue, emq: Settings) -> None:
    bad_cache = {**emq.CACHES["emq"], "LOCATION": "redis://127.0.0.1:1/0"}
    emq.CACHES = {**emq.CACHES, "gone": bad_cache}
    gone = {**emq.TASKS["default"], "OPTIONS": {"cache": "gone"}}
    emq.TASKS = {**emq.TASKS, "gone": gone}
    due(schedule(report.using(backend="gone"), every=60, name="gone"), next_run=LONG_AGO - timedelta(days=1))
    due(schedule(report, every=60, name="r"))

    with pytest.raises(BusError):
        Scheduler().turn()

    assert count(queue).pending == 1


@pytest.mark.django_db(transaction=True)
def test_a_row_that_another_process_has_is_left_to_it_and_looked_at_soon(queue: Queue) -> None:
    due(schedule(report, every=60, name="r"))
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT id FROM django_q_schedule FOR UPDATE")
            assert Scheduler().turn() == 0.25
            cursor.execute("ROLLBACK")
    finally:
        other.close()
    assert count(queue).pending == 0

    Scheduler().turn()

    assert count(queue).pending == 1


def test_a_pause_ends_when_the_next_row_is_due(queue: Queue) -> None:
    assert Scheduler().turn() == 5.0
    row = schedule(report, every=60, name="r")
    due(row, next_run=datetime.now(UTC) + timedelta(seconds=2))
    assert 1.5 < Scheduler().turn() <= 2


def test_a_cluster_and_a_keeper_fire_a_slot_together_once(queue: Queue) -> None:
    row = due(schedule(report, every=60, name="r"))
    answer = fire(eval(row.args), due=LONG_AGO.isoformat())

    assert answer.endswith("is enqueued")
    Scheduler().turn()
    assert fire(eval(row.args), due=LONG_AGO.isoformat()).endswith("was enqueued before")

    assert count(queue).pending == 1


def test_a_slot_that_a_cluster_took_and_did_not_push_is_fired_by_a_keeper_all_the_same(queue: Queue) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=0.2)
    row = due(schedule(report, every=60, name="r"), next_run=soon)
    keeper = Scheduler()
    keeper.turn()

    until(lambda: datetime.now(UTC) > soon)
    taken = due(row, next_run=soon + timedelta(seconds=3))
    keeper.turn()

    assert datetime.fromisoformat(last_slots(queue)["r"]) - soon < timedelta(milliseconds=1)
    row.refresh_from_db()
    assert row.next_run == taken.next_run


def test_a_cluster_that_catches_up_slot_by_slot_still_fires_one(queue: Queue) -> None:
    row = due(schedule(report, every=60, name="r"))

    for missed in range(5):
        fire(eval(row.args), due=(LONG_AGO + timedelta(minutes=missed)).isoformat())

    assert count(queue).pending == 1


@pytest.mark.django_db(transaction=True)
def test_what_a_cluster_makes_of_the_next_run_in_another_zone_is_corrected(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Conf, "CLUSTER_NAME", "emq")
    Schedule.objects.all().delete()
    row = schedule(report, cron="30 2 * * *", name="r", timezone="Asia/Tokyo")
    expected = row.next_run
    due(row)

    cluster_turn()
    row.refresh_from_db()
    assert row.next_run != expected
    [queued] = OrmQ.objects.all()
    assert queued.task["kwargs"] == {"due": LONG_AGO.isoformat()}
    fire(*queued.task["args"], **queued.task["kwargs"])

    row.refresh_from_db()
    assert row.next_run == expected
    assert count(queue).pending == 1


def test_a_broken_row_fails_in_a_cluster_with_the_same_words(queue: Queue) -> None:
    with pytest.raises(InvalidSchedule, match="its arguments are 'x'"):
        fire("x")
    with pytest.raises(EchoMQError, match=r"no task at 'no\.such'"):
        fire({"name": "a", "task": "no.such"})


def test_a_schedule_without_the_table_of_django_q2_waits_for_it(queue: Queue) -> None:
    keeper = Scheduler()
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE django_q_schedule RENAME TO elsewhere")
        assert keeper.turn() == 5.0
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE elsewhere RENAME TO django_q_schedule")
    due(schedule(report, every=60, name="r"))

    keeper.turn()

    assert count(queue).pending == 1
