"""Schedules are fired by several processes at once, some of which die while they do it."""

import sys
from base64 import b32hexdecode
from datetime import datetime
from functools import partial
from pathlib import Path

from django_q.models import Schedule

from echomq_django import schedule
from echomq_django.bus.queue import Queue, count
from echomq_django.bus.schedule import last_slots
from tests.chaos import ledger, tasks
from tests.chaos.crew import Crew
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]

CLUSTER = [sys.executable, "-m", "django", "qcluster"]
NAMES = [f"schedule {number}" for number in range(70)]
PERIOD, ROUNDS = 10, 3


def test_each_slot_is_fired_once_by_two_workers_and_a_cluster_while_schedulers_die(
    crew: Crew, queue: Queue, tmp_path: Path
) -> None:
    """C51, Koed00/django-q#231."""
    death = tmp_path / "death"
    workers = [crew.start(EMQ_TEST_DEATH=str(death)) for _ in range(2)]
    cluster = crew.start(command=CLUSTER, Q_CLUSTER_NAME="emq")
    Schedule.objects.all().delete()
    Schedule.objects.create(name="theirs", func="no.such", args="((((", cluster="other")
    Schedule.objects.create(name="unknown", func="no.such", cluster="emq", schedule_type="D")
    for worker in workers:
        worker.ready()
    cluster.logged("ready for work")
    first = {name: schedule(tasks.tick, every=PERIOD, name=name, args=[name]).next_run.timestamp() for name in NAMES}

    def rounds(wanted: int) -> bool:
        slots = last_slots(queue)
        return all(name in slots and slot_at(slots[name]) >= first[name] + (wanted - 1) * PERIOD for name in NAMES)

    for number in (1, 2):
        until(partial(rounds, number))
        death.touch()
        until(lambda: not death.exists())
    # From here on the cluster schedules nothing any more, which is a matter of its own.
    Schedule.objects.create(name="broken", func="no.such", args="((((", cluster="emq", schedule_type="D")
    for worker in workers:
        worker.logged("schedule 'broken'")
    until(lambda: rounds(ROUNDS))
    Schedule.objects.update(repeats=0)
    until(lambda: count(queue).pending + count(queue).active == 0)

    fired = {name: [slot_of(job_id) for job_id in ledger.effects_of(name)] for name in NAMES}
    for name, slots in fired.items():
        last = slot_at(last_slots(queue)[name])
        assert slots == [first[name] + n * PERIOD for n in range(len(slots))], (
            name,
            [worker.log for worker in workers],
        )
        assert slots[-1] == last
    assert sum(map(len, fired.values())) >= len(NAMES) * ROUNDS
    assert "created task" in cluster.log
    assert sum(worker.log.count("died (signal 9)") for worker in workers) == 2
    for worker in workers:
        assert worker.log.count("schedule 'broken'") == 1


def slot_at(text: str) -> float:
    """Return a slot as seconds."""
    return datetime.fromisoformat(text).timestamp()


def slot_of(job_id: str) -> float:
    """Return the slot in which a job was minted."""
    ms = int.from_bytes(b32hexdecode(job_id[3:] + "======")) >> 80
    return ms // (PERIOD * 1000) * PERIOD
