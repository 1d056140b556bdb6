"""Code of the project around each enqueue and each run, in real workers."""

import json
from collections.abc import Iterator
from copy import deepcopy

import pytest
from pytest_django import Settings

from echomq_django import enqueue_chain, enqueue_group, enqueue_many, step
from echomq_django.bus.message import Message
from echomq_django.bus.queue import Queue
from echomq_django.framework import TaskResultStatus
from echomq_django.models import DeadJob
from tests.chaos import flow_tasks, ledger, seen, tasks
from tests.chaos.crew import Crew
from tests.chaos.flow_tasks import tenant
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]
pytestmark = pytest.mark.parametrize("lease", [60.0])

PATHS = ["tests.chaos.flow_tasks.Witness", "tests.chaos.flow_tasks.Tenant"]


@pytest.fixture
def middleware(crew: Crew, emq: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two middlewares here and in the workers, and the tenant `ana` around the test."""
    changed = deepcopy(emq.TASKS)
    changed["default"]["OPTIONS"]["middleware"] = PATHS
    emq.TASKS = changed
    monkeypatch.setenv("EMQ_TEST_OPTIONS", json.dumps({"lease": 60.0, "middleware": PATHS}))
    before = tenant.set("ana")
    yield
    tenant.reset(before)


@pytest.mark.parametrize("whose", [flow_tasks.whose, flow_tasks.whose_in_coroutine], ids=["thread", "coroutine"])
def test_what_is_set_around_the_run_is_seen_by_the_handler(
    crew: Crew, queue: Queue, middleware: None, whose: tasks.AnyTask
) -> None:
    first = whose.enqueue().id
    before = tenant.set("bo")
    [second] = enqueue_many(whose, [((), {})])
    tenant.reset(before)
    crew.start()

    assert [json.loads(end.value) for end in seen.done(queue, first, second)] == ["ana", "bo"]
    assert ledger.signals(first) == ["attempt 1: ana"]


def test_headers_travel_with_the_job_and_stay_with_its_death(crew: Crew, queue: Queue, middleware: None) -> None:
    job_id = flow_tasks.give_up.enqueue().id
    assert Message.unpack(seen.row(queue, job_id).body).headers == {"tenant": "ana"}
    crew.start()

    dead = until(lambda: DeadJob.objects.filter(job_id=job_id).first())
    assert dead.headers == {"tenant": "ana"}
    assert ledger.signals(job_id) == ["attempt 1: Discard"]


def test_each_attempt_of_a_job_passes_through(crew: Crew, queue: Queue, middleware: None) -> None:
    job_id = flow_tasks.ask_for_retry.enqueue(0).id
    crew.start()

    seen.done(queue, job_id)
    assert ledger.signals(job_id) == ["attempt 1: Retry", "attempt 2: None"]


def test_a_step_that_follows_has_the_headers_of_the_one_before(crew: Crew, queue: Queue, middleware: None) -> None:
    enqueue_chain(step(flow_tasks.whose), step(flow_tasks.tell_tenant, "end"))
    group = enqueue_group([step(flow_tasks.whose)], then=step(flow_tasks.tell_tenant, "group"))
    crew.start()

    until(lambda: ledger.effect("end") and ledger.effect("group"))
    assert ledger.effect("end") == '["ana", "ana"]'
    assert ledger.effect("group") == json.dumps([group.members, "ana"])


def test_the_backend_for_test_suites_passes_its_jobs_through_too(middleware: None, emq: Settings) -> None:
    changed = deepcopy(emq.TASKS)
    changed["default"]["BACKEND"] = "echomq_django.testing.InlineBackend"
    emq.TASKS = changed

    results = [flow_tasks.whose.enqueue(), flow_tasks.whose_in_coroutine.enqueue()]

    assert [(result.status, result.return_value) for result in results] == [(TaskResultStatus.SUCCESSFUL, "ana")] * 2
    assert [ledger.signals(result.id) for result in results] == [["attempt 1: ana"]] * 2
