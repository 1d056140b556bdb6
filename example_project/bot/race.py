"""A loud tenant and three quiet ones, on two tracks: with a lane for each, and all in one line."""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Count, Max, TextChoices

from echomq_django import enqueue_many
from example_project.bot import tasks
from example_project.bot.models import Lap, Race

TENANTS = {"loud": 200, "quiet one": 5, "quiet two": 5, "quiet three": 5}


class Track(TextChoices):
    """A queue of the race; the value is its name."""

    LANES = "lanes", "A lane for each"
    LINE = "one-line", "All in one line"


@dataclass(frozen=True)
class Runner:
    """How far a tenant is; `seconds` from the start to the end of its last job so far, None before the first."""

    tenant: str
    done: int
    laps: int
    seconds: float | None

    @property
    def is_home(self) -> bool:
        """Whether all its jobs are done."""
        return self.done == self.laps


@dataclass(frozen=True)
class Result:
    """The tenants on one track."""

    track: Track
    runners: list[Runner]

    @property
    def is_over(self) -> bool:
        """Whether all jobs of all tenants are done."""
        return all(runner.is_home for runner in self.runners)

    @property
    def wait(self) -> float | None:
        """The seconds until the last quiet tenant was served, None before that."""
        quiet = self.runners[1:]
        return max(runner.seconds or 0 for runner in quiet) if all(runner.is_home for runner in quiet) else None


def start() -> None:
    """Enqueue the jobs of the loud tenant first and those of the quiet ones behind them, the same on both tracks."""
    with transaction.atomic():
        race = Race.objects.create()
        for track in Track:
            lap = tasks.run_lap.using(queue_name=track.value)
            for tenant, laps in TENANTS.items():
                enqueue_many(lap, [((race.pk, track.value, tenant), {})] * laps)


def read_race() -> list[Result]:
    """Read the latest race: nothing if there was none, else its tracks. Two queries."""
    race = Race.objects.order_by("id").last()
    if race is None:
        return []
    laps = Lap.objects.filter(race=race).values_list("track", "tenant").annotate(Count("id"), Max("finished_at"))
    found = {(track, tenant): (done, last) for track, tenant, done, last in laps}
    return [
        Result(track, [_runner(tenant, found.get((track, tenant)), race.started_at) for tenant in TENANTS])
        for track in Track
    ]


def _runner(tenant: str, found: tuple[int, datetime] | None, started_at: datetime) -> Runner:
    done, last = found or (0, None)
    return Runner(tenant, done, TENANTS[tenant], (last - started_at).total_seconds() if last else None)
