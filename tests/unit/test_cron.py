"""When a cron expression is due, on days on which the clocks jump."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from echomq_django.cron import Cron
from echomq_django.exceptions import InvalidOption

BERLIN, NEW_YORK, LORD_HOWE = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York"), ZoneInfo("Australia/Lord_Howe")
SPRING, AUTUMN = (
    {BERLIN: date(2026, 3, 29), NEW_YORK: date(2026, 3, 8)},
    {BERLIN: date(2026, 10, 25), NEW_YORK: date(2026, 11, 1)},
)
SWITCHES = [(zone, day) for days in (SPRING, AUTUMN) for zone, day in days.items()] + [
    (LORD_HOWE, date(2026, 4, 5)),
    (LORD_HOWE, date(2026, 10, 4)),
]
EXPRESSIONS = ["0 * * * *", "30 * * * *", "*/15 * * * *", "30 2 * * *", "0 6 * * *", "15 1,2,3 * * *", "0 */2 * * *"]


def runs_of(expression, zone, day):
    """Return what the clocks show at each run of a day."""
    cron, instant = Cron(expression, zone), datetime(day.year, day.month, day.day, tzinfo=zone) - timedelta(seconds=1)
    runs = []
    while (instant := cron.after(instant)).astimezone(zone).date() == day:
        runs.append(f"{instant.astimezone(zone):%H:%M}")
    return runs


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK], ids=str)
def test_what_runs_daily_runs_once_on_each_day(zone):
    for day in (SPRING[zone], AUTUMN[zone]):
        assert runs_of("0 6 * * *", zone, day) == ["06:00"]
    assert runs_of("30 2 * * *", zone, SPRING[zone]) == ["03:30"]
    assert runs_of("30 2 * * *", zone, AUTUMN[zone]) == ["02:30"]


def test_a_time_that_comes_twice_counts_the_first_time():
    cron = Cron("30 2 * * *", BERLIN)

    assert cron.after(datetime(2026, 10, 24, 12, tzinfo=UTC)) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    second = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    assert cron.before(second) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK], ids=str)
def test_what_runs_hourly_runs_once_in_each_hour_that_passes(zone):
    assert len(runs_of("0 * * * *", zone, SPRING[zone])) == 23
    assert len(runs_of("0 * * * *", zone, AUTUMN[zone])) == 25
    assert len(runs_of("*/15 * * * *", zone, AUTUMN[zone])) == 100


@pytest.mark.parametrize(("zone", "day"), SWITCHES, ids=str)
@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ("7 * * * *", lambda shown: shown.minute == 7),
        ("*/15 * * * *", lambda shown: shown.minute % 15 == 0),
        ("*/5 * * * 0", lambda shown: shown.minute % 5 == 0 and shown.weekday() == 6),
    ],
    ids=["once", "quarters", "sundays"],
)
def test_every_hour_means_each_instant_at_which_the_clocks_show_it(expression, matches, zone, day):
    start = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(days=1)
    minutes = [start + timedelta(minutes=n) for n in range(3 * 1440)]
    shown = [one for one in minutes if matches(one.astimezone(zone))]

    cron, found, instant = Cron(expression, zone), [], start - timedelta(seconds=1)
    while (instant := cron.after(instant)) <= minutes[-1]:
        found.append(instant)

    assert found == shown


@pytest.mark.parametrize(("zone", "day"), SWITCHES, ids=str)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_before_and_after_agree_at_each_instant_around_a_switch(expression, zone, day):
    cron, midnight = Cron(expression, zone), datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
    start = midnight - timedelta(hours=1)
    runs = [start - timedelta(days=1)]
    while runs[-1] < start + timedelta(days=2):
        runs.append(cron.after(runs[-1]))

    for instant in (start + timedelta(minutes=10 * n) for n in range(36)):
        assert cron.before(instant) == max(run for run in runs if run <= instant)
        assert cron.after(instant) == min(run for run in runs if run > instant)


@pytest.mark.parametrize(
    "expression", ["", "x", "* * *", "61 * * * *", "R * * * *", "0 R(1-3) * * *", "@reboot", None, 5]
)
def test_what_is_no_expression_is_refused(expression):
    with pytest.raises(InvalidOption, match=r"^cron = "):
        Cron(expression, BERLIN)


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 1 1 * 0 2020"])
def test_an_expression_that_is_never_due_says_so(expression):
    with pytest.raises(InvalidOption, match="is never due"):
        Cron(expression, BERLIN).after(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("expression", ["@daily", "0 0 * * fri#2", "0 12 L * *", "0 9 * * mon-fri", "*/5 * * * * 30"])
def test_what_cron_knows_is_known(expression):
    assert Cron(expression, BERLIN).after(datetime(2026, 1, 1, tzinfo=UTC)).year == 2026
