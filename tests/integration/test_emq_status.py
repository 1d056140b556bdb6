"""`manage.py emq_status`: how the queues are, for people, for programs, and for monitoring."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from copy import deepcopy
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from pytest_django import Settings

from echomq_django.bus import limits
from echomq_django.bus.queue import Queue
from echomq_django.bus.schedule import hasten, promote
from echomq_django.floor import outbox
from echomq_django.floor.dead_letters import mirror, requeue
from echomq_django.models import DeadJob
from tests.bus import scenes
from tests.integration.wire import Impostor

pytestmark = pytest.mark.django_db(transaction=True)


def status(*words: str) -> tuple[int, str, str]:
    """Run the command and return its exit code and what it wrote to both streams."""
    out, err = StringIO(), StringIO()
    code: Any = 0
    try:
        call_command("emq_status", *words, stdout=out, stderr=err)
    except SystemExit as left:
        code = left.code
    return code, out.getvalue(), err.getvalue()


def as_data() -> Any:
    """Return what the command tells a program."""
    return json.loads(status("--json")[1])


def test_a_program_gets_each_number(queue: Queue) -> None:
    scenes.dead(queue, 3)
    requeue([mirror(queue, "default")[0].pk], "ana")
    scenes.enqueued(queue, lane="a", delay_ms=1_000)
    hasten(queue, 61_000)
    promote(queue)
    scenes.enqueued(queue, 2, delay_ms=scenes.SOON)
    scenes.waiting_for(queue, scenes.a_group(queue, 2))
    outbox.park("default", "default", scenes.new_job(queue), "no answer")
    limits.set(queue, concurrency=7, rate="5/m")

    told = as_data()

    [backend] = told["backends"]
    assert backend["backend"] == "default"
    assert backend["server"].split()[0] in ("valkey", "redis")
    assert told["dead_jobs"] == {"dead": 2, "requeued": 1, "discarded": 0}
    default, emails = backend["queues"]
    assert 60 <= default.pop("oldest") < 70
    assert 590 < default.pop("next_due") <= 600
    assert 0 <= default.pop("parked_oldest") < 10
    assert default == {
        "backend": "default",
        "queue": "default",
        "listed": True,
        "pending": 2,
        "scheduled": 3,
        "waiting": 1,
        "active": 0,
        "suspect": 0,
        "unmirrored": 0,
        "lanes": 2,
        "lanes_not_counted": 0,
        "held": 0,
        "paused": None,
        "concurrency": 7,
        "rate": "5/m",
        "forgotten_early": 0,
        "dead": 2,
        "parked": 1,
    }
    assert (emails["queue"], emails["pending"], emails["oldest"]) == ("emails", 0, None)


def test_people_get_a_table_with_what_is_special_behind_each_queue(queue: Queue) -> None:
    scenes.enqueued(queue, 12)
    limits.set(queue, concurrency=2)
    limits.pause(queue, by="ana", why="deploy")

    code, told, errors = status()

    assert (code, errors) == (0, "")
    header, default, emails = [line for line in told.splitlines() if line.startswith("  ") and "warning" not in line]
    columns = "queue pending oldest scheduled next due waiting active suspect unmirrored dead parked"
    assert " ".join(header.split()) == columns
    assert default.split()[:6] == ["default", "12", "0:00:00", "0", "-", "0"]
    assert default.endswith("paused by ana (deploy); at most 2 at once")
    assert emails.split()[0] == "emails"
    assert header.index("pending") + len("pending") == default.index("12") + 2
    assert "database: dead jobs: 0 dead, 0 requeued, 0 discarded; parked: 0" in told
    assert " at redis://127.0.0.1:" in told
    assert "keeps no append-only log" in told


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--max-pending", "1"], "default.default: 2 pending jobs, 1 allowed"),
        (["--max-age", "30"], "seconds since the oldest pending job became ready, 30 allowed"),
        (["--max-dead", "1"], "default.default: 2 dead jobs, mirrored or not, 1 allowed"),
        (["--max-parked", "0"], "default.default: 1 jobs parked in the database, 0 allowed"),
    ],
)
def test_a_bound_that_is_exceeded_is_an_exit_code_and_a_line(queue: Queue, words: list[str], line: str) -> None:
    scenes.dead(queue, 1)
    mirror(queue, "default")
    scenes.dead(queue, 1)
    scenes.enqueued(queue, 2, delay_ms=1_000)
    hasten(queue, 61_000)
    promote(queue)
    outbox.park("default", "default", scenes.new_job(queue), "no answer")

    code, _, errors = status(*words)
    assert (code, errors.count("\n")) == (1, 1)
    assert line in errors
    generous = [words[0], "1000"]
    assert status(*generous)[0] == 0


def test_a_program_is_told_what_is_exceeded_too(queue: Queue) -> None:
    scenes.enqueued(queue, 2)
    code, told, _ = status("--json", "--max-pending", "1")
    assert code == 1
    assert json.loads(told)["exceeded"] == ["default.default: 2 pending jobs, 1 allowed"]


def test_dead_jobs_of_a_queue_that_nobody_lists_any_more_are_told(queue: Queue, emq: Settings) -> None:
    scenes.dead(queue)
    mirror(queue, "default")
    DeadJob.objects.update(queue="gone")

    code, told, errors = status("--max-dead", "0")

    assert code == 1
    assert "default.gone: 1 dead jobs" in errors
    [line] = [line for line in told.splitlines() if line.lstrip().startswith("gone")]
    assert line.endswith("not in QUEUES")


def test_a_server_that_is_away_is_another_exit_code_and_the_database_is_told(
    queue: Queue, outage: Callable[[], AbstractContextManager[None]]
) -> None:
    scenes.dead(queue)
    mirror(queue, "default")

    with outage():
        code, told, errors = status("--max-pending", "5")
        data = as_data()

    assert code == 3
    assert "no answer from the server" in errors
    assert "default: no server at redis://127.0.0.1:1/0" in told
    assert "1 dead" in told
    assert "no answer" in data["backends"][0]["problem"]


def test_a_server_that_is_too_old_is_told(emq: Settings) -> None:
    with Impostor(redis_version="6.2.0") as server:
        emq.CACHES = {**emq.CACHES, "emq": {**emq.CACHES["emq"], "LOCATION": server.url}}
        code, _, errors = status()
    assert code == 3
    assert "needs 7.0 or newer" in errors


def test_a_database_that_is_away_is_told_and_the_queues_are_shown(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenes.enqueued(queue, 4)
    connection = connections["default"]
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "PORT", "1")
    try:
        code, told, errors = status("--json")
    finally:
        monkeypatch.undo()
        connection.close()
    assert code == 3
    assert "the database 'default' does not answer" in errors
    assert json.loads(told)["backends"][0]["queues"][0]["pending"] == 4


def test_a_backend_can_be_chosen_and_a_wrong_one_is_refused(queue: Queue, emq: Settings) -> None:
    tasks = deepcopy(emq.TASKS)
    tasks["second"] = deepcopy(tasks["default"])
    tasks["second"]["OPTIONS"]["prefix"] += "second"
    tasks["inline"] = {"BACKEND": "echomq_django.testing.InlineBackend"}
    emq.TASKS = tasks
    assert [one["backend"] for one in as_data()["backends"]] == ["default", "second"]
    assert "second: " in status("--backend", "second")[1]
    for wrong in ("nope", "inline"):
        with pytest.raises(CommandError, match=wrong) as refused:
            status("--backend", wrong)
        assert refused.value.returncode == 2
