"""The rows of the duties, and `manage.py emq_schedules`."""

from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django_q.models import Schedule
from pytest_django import Settings

from echomq_django import schedule, task
from echomq_django.apps import install_duties
from echomq_django.bus import jobs, limits
from echomq_django.bus.queue import Queue, count
from echomq_django.models import DeadJob
from echomq_django.scheduler import Scheduler
from echomq_django.schedules import DUTIES, FIRE, install, mirror, recover, relay
from tests.bus.scenes import active, dead, expire, new_job

pytestmark = pytest.mark.django_db

NAMES = ["emq recover", "emq mirror", "emq relay"]


@task
def report() -> None:
    pass


@pytest.fixture(autouse=True)
def _no_rows(db: None) -> None:
    Schedule.objects.all().delete()


def said(*arguments: str) -> str:
    """Run the command and return what it says."""
    output = StringIO()
    call_command("emq_schedules", *arguments, stdout=output)
    return output.getvalue()


def names() -> set[str]:
    """Return the names of all rows."""
    return set(Schedule.objects.values_list("name", flat=True))


class Applied:
    """A migration as `post_migrate` tells of it."""

    def __init__(self, app_label: str, name: str = "0001_initial") -> None:
        self.app_label, self.name = app_label, name


@pytest.mark.parametrize("came", ["echomq_django", "django_q"])
def test_the_duties_are_installed_when_one_of_the_tables_has_just_come(came: str) -> None:
    plan: Any = [(Applied("auth"), False), (Applied(came), False)]

    install_duties(using="default", plan=plan)

    assert names() == set(NAMES)
    for row in Schedule.objects.all():
        assert (row.cluster, row.schedule_type, row.minutes) == ("emq", "I", 1)
        assert row.func in DUTIES


@pytest.mark.parametrize(
    "facts",
    [
        {"using": "default"},
        {"using": "default", "plan": []},
        {"using": "default", "plan": [(Applied("auth"), False)]},
        {"using": "default", "plan": [(Applied("django_q", "0002_more"), False)]},
        {"using": "default", "plan": [(Applied("echomq_django"), True)]},
        {"using": "other", "plan": [(Applied("echomq_django"), False)]},
    ],
    ids=["flush", "nothing new", "another app", "a later migration", "backwards", "another database"],
)
def test_otherwise_an_edit_or_a_delete_stays(facts: Any) -> None:
    install_duties(**facts)

    assert names() == set()


def test_without_django_q2_or_its_table_migrate_goes_on(settings: Settings) -> None:
    plan: Any = [(Applied("echomq_django"), False)]
    with connections["default"].cursor() as cursor:
        cursor.execute("ALTER TABLE django_q_schedule RENAME TO elsewhere")
    install_duties(using="default", plan=plan)
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_q"]
    install_duties(using="default", plan=plan)


def test_migrate_itself_installs_them(settings: Settings) -> None:
    with pytest.raises(CommandError, match="no schedule 'emq relay'"):
        said("remove", "emq relay")
    call_command("migrate", "echomq_django", "zero", verbosity=0)
    call_command("migrate", verbosity=0)

    assert names() == set(NAMES)


def test_install_adds_what_is_missing_and_keeps_edits() -> None:
    install()
    Schedule.objects.filter(name="emq mirror").update(minutes=7, name="mine")
    Schedule.objects.filter(name="emq relay").delete()

    assert said("install") == "installed: emq relay\n"
    assert names() == {"emq recover", "mine", "emq relay"}
    assert Schedule.objects.get(name="mine").minutes == 7
    assert said("install") == "installed: nothing\n"


def test_remove_takes_the_duties_or_what_is_named_and_nothing_of_others(emq: Settings) -> None:
    install()
    schedule(report, every=60, name="r")
    Schedule.objects.create(name="theirs", func="math.floor", cluster="emq")

    with pytest.raises(CommandError, match="there is no schedule 'theirs'"):
        said("remove", "r", "theirs")
    assert said("remove") == "removed: emq mirror, emq recover, emq relay\n"
    assert said("remove", "r") == "removed: r\n"
    assert names() == {"theirs"}


def test_list_shows_what_fires_when_and_what_does_not(queue: Queue) -> None:
    install()
    schedule(report, cron="0 6 * * *", name="daily", timezone="Europe/Berlin")
    schedule(report.using(queue_name="emails"), every=300, name="emails")
    paused = schedule(report, every=60, name="paused")
    Schedule.objects.filter(pk=paused.pk).update(repeats=0)
    Schedule.objects.create(name="broken", func="math.floor", cluster="emq", schedule_type="D")
    Schedule.objects.create(name="theirs", func="math.floor")
    Schedule.objects.filter(name="daily").update(next_run=datetime(2026, 1, 5, tzinfo=UTC))
    Scheduler().turn()
    limits.pause(queue.__class__(queue.client, queue.keys.prefix, "emails"))

    lines = {line.split("  ")[0]: line for line in said("list").splitlines()}

    assert lines.keys() == {"NAME", "daily", "emails", "paused", "broken", *NAMES}
    assert report.module_path in lines["daily"]
    assert "0 6 * * *" in lines["daily"]
    assert "Europe/Berlin" in lines["daily"]
    assert lines["daily"].endswith(":00:00Z  on")
    assert "every 5 min" in lines["emails"]
    assert lines["emails"].endswith("queue paused")
    assert lines["paused"].endswith("paused")
    assert "broken: its function is 'math.floor'" in lines["broken"]
    assert lines["emq relay"].endswith("for a qcluster")


def test_list_works_while_the_server_is_away(queue: Queue, outage: Any) -> None:
    schedule(report, every=60, name="r")

    with outage():
        assert "its server: " in said("list")


def test_without_django_q2_the_command_says_what_to_add(settings: Settings) -> None:
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_q"]

    with pytest.raises(CommandError, match="'django_q' is not in INSTALLED_APPS"):
        said("list")


@pytest.mark.django_db(transaction=True)
def test_the_duties_do_the_work_of_a_beat_in_all_queues(queue: Queue) -> None:
    dead(queue)
    assert mirror() == "1 deaths are mirrored"
    assert DeadJob.objects.count() == 1
    assert relay() == "0 parked jobs are pushed"

    (row,) = active(queue)
    expire(queue, row)
    assert recover() == "1 jobs are back in line or dead"
    assert count(queue).pending == 1


def test_recovery_by_a_cluster_alone_gives_holders_time_to_renew_first(queue: Queue) -> None:
    (row,) = active(queue, lease_ms=900)
    queue.client.hset(queue.keys.meta, mapping={"last_pass": 0, "lease_ms": 900})
    jobs.enqueue(queue, [new_job(queue)])
    queue.client.zadd(queue.keys.active, {row.job_id: 1})

    assert recover() == "1 jobs are back in line or dead"
    assert (
        int(queue.client.hget(queue.keys.meta, "last_pass")) - int(queue.client.hget(queue.keys.meta, "gap_at")) > 1000
    )


def test_a_keeper_leaves_the_duties_to_a_cluster(queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    install()
    long_ago = datetime.now(UTC) - timedelta(days=1)
    Schedule.objects.update(next_run=long_ago)

    Scheduler().turn()

    assert set(Schedule.objects.values_list("next_run", flat=True)) == {long_ago}
    assert not caplog.records
    assert FIRE not in DUTIES
