"""The slots of a year's two days on which clocks jump, as a keeper and anybody else who tries would fire them."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django_q.models import Schedule
from pytest_django import Settings

from echomq_django.slots import instant, slot_of, stored, zone_of

SWITCHES = {
    ("Europe/Berlin", "spring"): datetime(2026, 3, 29),
    ("Europe/Berlin", "autumn"): datetime(2026, 10, 25),
    ("America/New_York", "spring"): datetime(2026, 3, 8),
    ("America/New_York", "autumn"): datetime(2026, 11, 1),
}
OUTAGE = timedelta(days=4)


@pytest.fixture(params=[True, False], ids=["USE_TZ", "no USE_TZ"])
def use_tz(request: pytest.FixtureRequest, settings: Settings) -> None:
    """A project with or without time zones."""
    settings.USE_TZ = request.param


@pytest.fixture(params=["Europe/Berlin", "America/New_York", "Asia/Tokyo"])
def project_zone(request: pytest.FixtureRequest, settings: Settings, use_tz: None) -> str:
    """The zone of the project, which may be another than that of the schedule."""
    settings.TIME_ZONE = request.param
    return str(request.param)


def fired(cron: str, zone: str, start: datetime, end: datetime, *, step: timedelta) -> list[datetime]:
    """Return the slots of a schedule that a keeper serves when they are due, and that somebody tries at each step too.

    A slot is fired if it is later than the last one, as the server sees to.
    """
    row, slots = Schedule(schedule_type="C", cron=cron, next_run=stored(start)), [start - timedelta(days=9)]
    now = start
    while now < end:
        keeper_due = instant(row.next_run, now) <= now
        slot = slot_of(row, zone_of(zone), instant(row.next_run, now) if keeper_due else now, now)
        if slot.due > slots[-1]:
            slots.append(slot.due)
        assert slot.following is not None
        row.next_run = stored(slot.following)
        now = min(slot.following, now + step)
    return slots[1:]


def on_the_day(slots: list[datetime], zone: str, day: datetime) -> list[str]:
    """Return what the clocks showed at the slots of a day."""
    local = [slot.astimezone(ZoneInfo(zone)) for slot in slots]
    return [f"{one:%H:%M}" for one in local if one.date() == day.date()]


@pytest.mark.usefixtures("project_zone")
@pytest.mark.parametrize(("zone", "season"), SWITCHES)
def test_daily_and_hourly_schedules_go_by_the_clocks_of_their_zone_over_a_switch(zone: str, season: str) -> None:
    """C53, django-q2/django-q2#44."""
    day, step = SWITCHES[zone, season], timedelta(minutes=30)
    midnight = day.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    start, end = midnight - timedelta(hours=6), midnight + timedelta(hours=33)

    slots = {cron: fired(cron, zone, start, end, step=step) for cron in ("0 6 * * *", "30 2 * * *", "0 * * * *")}
    shown = {cron: on_the_day(found, zone, day) for cron, found in slots.items()}
    next_day = {cron: on_the_day(found, zone, day + timedelta(days=1)) for cron, found in slots.items()}

    assert shown["0 6 * * *"] == next_day["0 6 * * *"] == ["06:00"]
    assert shown["30 2 * * *"] == (["03:30"] if season == "spring" else ["02:30"])
    assert next_day["30 2 * * *"] == ["02:30"]
    assert len(shown["0 * * * *"]) == (23 if season == "spring" else 25)


@pytest.mark.usefixtures("project_zone")
@pytest.mark.parametrize(("zone", "season"), SWITCHES)
@pytest.mark.parametrize("cron", ["0 6 * * *", "30 2 * * *", "0 * * * *"])
def test_after_four_days_of_outage_over_a_switch_one_slot_is_made_up_for(zone: str, season: str, cron: str) -> None:
    """C53, django-q2/django-q2#44."""
    day = SWITCHES[zone, season].replace(hour=12, minute=7, tzinfo=ZoneInfo(zone)).astimezone(UTC)
    row = Schedule(schedule_type="C", cron=cron, next_run=stored(day - OUTAGE))

    slot = slot_of(row, zone_of(zone), instant(row.next_run, day), day)

    assert slot.late
    assert slot.due <= day < slot.following
    assert slot.following - slot.due <= timedelta(hours=26)
    assert on_the_day([slot.due], zone, SWITCHES[zone, season])


@pytest.mark.usefixtures("use_tz")
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_an_interval_is_the_same_time_on_each_day(settings: Settings, zone: str) -> None:
    settings.TIME_ZONE = zone
    start = SWITCHES[zone, "autumn"].replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    row = Schedule(schedule_type="I", minutes=20, next_run=stored(start))
    slots: list[Any] = []

    now = start
    while now < start + timedelta(hours=6):
        if instant(row.next_run, now) <= now:
            slot = slot_of(row, zone_of(None), instant(row.next_run, now), now)
            slots += [slot.due] if slot.due not in slots else []
            row.next_run = stored(slot.following)
        now += timedelta(minutes=5)

    assert slots == [start + n * timedelta(minutes=20) for n in range(18)]


def test_a_moment_that_the_clocks_show_twice_is_the_second_one_once_that_has_come(settings: Settings) -> None:
    settings.USE_TZ, settings.TIME_ZONE = False, "Europe/Berlin"
    shown, first = datetime(2026, 10, 25, 2, 30), datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    second = first + timedelta(hours=1)

    assert stored(first) == stored(second) == shown
    assert instant(shown, second - timedelta(seconds=1)) == first
    assert instant(shown, second) == second


def test_the_zone_is_that_of_the_schedule_or_of_django_q2_or_of_the_project(settings: Settings) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    assert zone_of(None).key == "Asia/Tokyo"
    settings.Q_CLUSTER = {**settings.Q_CLUSTER, "time_zone": "Europe/Berlin"}
    assert zone_of(None).key == "Europe/Berlin"
    assert zone_of("America/New_York").key == "America/New_York"
