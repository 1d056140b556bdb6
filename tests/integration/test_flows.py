"""Chains and groups: with real workers, through death and back, and in the backend for test suites."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from pytest_django import Settings

from echomq_django import enqueue_chain, enqueue_group, step
from echomq_django.bus import groups
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import State
from echomq_django.connection import get_bus
from echomq_django.exceptions import BusUnavailable, InvalidArguments, InvalidOption
from echomq_django.floor import outbox
from echomq_django.floor.dead_letters import discard, requeue
from echomq_django.framework import TaskResultDoesNotExist
from echomq_django.models import DeadJob, OutboxJob
from tests.chaos import flow_tasks, ledger, seen, tasks
from tests.chaos.crew import Crew
from tests.chaos.flow_tasks import add, tell
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]


@pytest.fixture
def lease() -> float:
    """Short enough to see a dead worker's jobs come back."""
    return 1.5


def told(name: str) -> Any:
    """Wait until a job has told something under `name`, and return it; it told it once."""
    value = json.loads(until(lambda: ledger.effect(name)))
    assert ledger.starts(name) == 1
    return value


class TestChains:
    def test_each_step_gets_the_value_of_the_one_before_also_from_another_queue(self, crew: Crew) -> None:
        result = enqueue_chain(
            step(add, 1), step(add.using(queue_name="emails"), 2), step(add, 3), step(tell, name="end")
        )
        crew.start()

        assert told("end") == 6
        result.refresh()
        assert (result.state, result.return_value) == ("completed", 1)

    def test_the_next_step_waits_until_the_one_before_has_ended_well(
        self, crew: Crew, queue: Queue, tmp_path: Path
    ) -> None:
        cure = tmp_path / "cure"
        result = enqueue_chain(step(flow_tasks.die_unless, str(cure)), step(tell, "end"))
        crew.start()
        dead = until(lambda: DeadJob.objects.filter(job_id=result.id).first())
        assert ledger.effect("end") is None

        cure.touch()
        requeue([dead.pk], "ana")

        assert told("end") is None

    def test_with_burst_a_worker_stays_until_the_last_step_is_done(self, crew: Crew) -> None:
        enqueue_chain(step(add, 1), step(add.using(queue_name="emails"), 2), step(tell, "end"))

        assert crew.start("--burst").exit_code() == 0

        assert ledger.effect("end") == "3"

    def test_a_chain_in_a_transaction_waits_for_its_commit(self, crew: Crew, queue: Queue) -> None:
        with transaction.atomic():
            result = enqueue_chain(step(add, 1), step(tell, "end"))
            assert result.state == "uncommitted"
            assert queue.client.zcard(queue.keys.pending) == 0
        assert seen.is_in(queue, result.id, State.PENDING)

    def test_a_worker_that_is_killed_in_the_middle_loses_no_step(self, crew: Crew, gate: Path) -> None:
        result = enqueue_chain(step(tasks.hold, str(gate)), step(add.using(queue_name="emails"), 1), step(tell, "end"))
        worker = crew.start()
        until(lambda: ledger.starts(result.id))
        worker.kill()
        crew.start()

        assert told("end") == 3  # the second start returns 2

    @pytest.mark.parametrize(
        ("steps", "error", "complaint"),
        [
            ([], InvalidOption, "at least one step"),
            ([step(add), step(add, object())], InvalidArguments, r"args\[0\] is of the type object"),
            ([step(add), step(add.using(unique="done"))], InvalidOption, "can't be unique"),
        ],
        ids=["none", "argument", "unique"],
    )
    def test_what_can_not_follow_is_refused_before_anything_is_enqueued(
        self, crew: Crew, queue: Queue, steps: list[Any], error: type[Exception], complaint: str
    ) -> None:
        with pytest.raises(error, match=complaint):
            enqueue_chain(*steps)
        assert queue.client.zcard(queue.keys.pending) == 0


class TestGroups:
    @pytest.mark.parametrize("queue_name", ["default", "emails"])
    def test_what_follows_runs_once_with_the_ids_when_all_members_are_over(
        self, crew: Crew, queue: Queue, queue_name: str
    ) -> None:
        follower = tell.using(queue_name=queue_name)
        group = enqueue_group([step(tasks.work, 0.0, 0.05) for _ in range(20)], then=step(follower, "end"))
        crew.start("--threads", "4")

        assert told("end") == group.members
        seen.done(queue, *group.members)
        assert ledger.effects(group.members) == 20

    def test_a_group_without_members_is_over_at_once_after_the_commit(self, crew: Crew, queue: Queue) -> None:
        with transaction.atomic():
            group = enqueue_group([], then=step(tell, "end"))
            assert queue.client.zcard(queue.keys.pending) == 0
        crew.start()

        assert group.members == []
        assert told("end") == []

    def test_a_group_may_have_no_follower(self, crew: Crew, queue: Queue) -> None:
        group = enqueue_group([step(tasks.work), step(tasks.work)])
        crew.start()

        seen.done(queue, *group.members)
        assert (group.then, groups.over(queue, group.id)) == ("", 2)

    @pytest.mark.parametrize("queue_name", ["default", "emails"])
    def test_a_worker_that_is_killed_between_members_makes_nobody_wait_or_come_twice(
        self, crew: Crew, queue: Queue, gate: Path, queue_name: str
    ) -> None:
        members = [step(tasks.work), step(tasks.hold, str(gate)), step(tasks.hold, str(gate)), step(tasks.work)]
        group = enqueue_group(members, then=step(tell.using(queue_name=queue_name), "end"))
        worker = crew.start("--threads", "2")
        seen.done(queue, group.members[0])
        until(lambda: all(ledger.starts(group.members[n]) for n in (1, 2)))
        assert ledger.effect("end") is None
        worker.kill()
        crew.start("--threads", "2")

        assert told("end") == group.members
        assert [ledger.starts(job_id) for job_id in group.members] == [1, 2, 2, 1]

    def test_a_member_that_is_cancelled_is_over(self, crew: Crew, queue: Queue) -> None:
        group = enqueue_group([step(tasks.work), step(tasks.work)], then=step(tell, "end"))
        tasks.work.get_result(group.members[0]).cancel()
        crew.start()

        assert told("end") == group.members
        assert ledger.effects(group.members) == 1

    def test_a_dead_member_is_waited_for_until_it_is_requeued_and_ends_well(
        self, crew: Crew, queue: Queue, tmp_path: Path
    ) -> None:
        cure = tmp_path / "cure"
        members = [step(tasks.work), step(flow_tasks.die_unless, str(cure))]
        group = enqueue_group(members, then=step(tell, "end"))
        crew.start()
        dead = until(lambda: DeadJob.objects.filter(job_id=group.members[1]).first())
        seen.done(queue, group.members[0])
        assert (dead.group["id"], dead.group["size"], ledger.effect("end")) == (group.id, 2, None)

        cure.touch()
        requeue([dead.pk], "ana")

        assert told("end") == group.members

    @pytest.mark.parametrize("queue_name", ["default", "emails"])
    def test_a_dead_member_that_is_discarded_is_waited_for_no_more(
        self, crew: Crew, queue: Queue, queue_name: str
    ) -> None:
        members = [step(tasks.work), step(flow_tasks.give_up)]
        group = enqueue_group(members, then=step(tell.using(queue_name=queue_name), "end"))
        crew.start()
        dead = until(lambda: DeadJob.objects.filter(job_id=group.members[1]).first())

        discard([dead.pk], "ana")

        assert told("end") == group.members
        assert not OutboxJob.objects.exists()

    def test_a_discard_while_the_server_is_down_reaches_the_group_later(
        self, crew: Crew, queue: Queue, emq: Settings
    ) -> None:
        group = enqueue_group([step(flow_tasks.give_up)], then=step(tell, "end"))
        worker = crew.start()
        dead = until(lambda: DeadJob.objects.filter(job_id=group.members[0]).first())
        worker.kill()

        reachable = emq.CACHES
        emq.CACHES = {**reachable, "emq": {**reachable["emq"], "LOCATION": "redis://127.0.0.1:1/0"}}
        discard([dead.pk], "ana")
        emq.CACHES = reachable
        assert (outbox.waiting_revivals(), OutboxJob.objects.count()) == (0, 1)
        assert groups.over(get_bus().queue("default"), group.id) == 0
        crew.start()

        assert told("end") == group.members

    def test_a_group_that_the_server_could_not_take_after_the_commit_is_a_group_still(
        self, crew: Crew, queue: Queue, emq: Settings
    ) -> None:
        reachable = emq.CACHES
        with transaction.atomic():
            group = enqueue_group([step(tasks.work), step(tasks.work)], then=step(tell, "end"))
            emq.CACHES = {**reachable, "emq": {**reachable["emq"], "LOCATION": "redis://127.0.0.1:1/0"}}
        emq.CACHES = reachable
        assert OutboxJob.objects.count() == 3
        crew.start()

        assert told("end") == group.members
        assert ledger.effects(group.members) == 2

    @pytest.mark.parametrize(
        ("members", "then", "complaint"),
        [
            ([], None, "has members"),
            ([step(add), step(add.using(queue_name="emails"))], None, r"several queues \(default, emails\)"),
            ([step(add.using(unique="done"))], None, "can't be unique"),
            ([step(add)], step(tell.using(unique=5), "end"), "can't be unique"),
        ],
        ids=["nothing", "queues", "unique member", "unique follower"],
    )
    def test_what_can_not_be_a_group_is_refused(
        self, crew: Crew, queue: Queue, members: list[Any], then: Any, complaint: str
    ) -> None:
        with pytest.raises(InvalidOption, match=complaint):
            enqueue_group(members, then)
        assert queue.client.zcard(queue.keys.pending) == 0

    def test_outside_a_transaction_a_server_that_is_down_is_the_caller_s_error(self, crew: Crew, emq: Settings) -> None:
        emq.CACHES = {**emq.CACHES, "emq": {**emq.CACHES["emq"], "LOCATION": "redis://127.0.0.1:1/0"}}

        with pytest.raises(BusUnavailable, match="not known whether"):
            enqueue_group([step(add)], then=step(tell, "end"))
        assert not OutboxJob.objects.exists()


class TestInline:
    @pytest.fixture(autouse=True)
    def inline(self, crew: Crew, settings: Settings) -> None:
        """The backend for test suites; the crew's database holds the ledger."""
        settings.TASKS = {
            "default": {"BACKEND": "echomq_django.testing.InlineBackend", "QUEUES": ["default", "emails"]},
            "other": {"BACKEND": "echomq_django.testing.InlineBackend"},
        }

    def test_the_steps_of_a_chain_run_one_after_the_other(self) -> None:
        result = enqueue_chain(step(add, 1), step(add.using(queue_name="emails"), 2), step(tell, "end"))

        assert (result.return_value, ledger.effect("end")) == (1, "3")

    def test_a_chain_ends_where_a_step_fails(self, tmp_path: Path) -> None:
        result = enqueue_chain(step(flow_tasks.die_unless, str(tmp_path / "cure")), step(tell, "end"))

        assert (result.status.value, ledger.effect("end")) == ("FAILED", None)

    def test_what_follows_a_group_runs_after_all_members(self) -> None:
        group = enqueue_group([step(tasks.work), step(tasks.work)], then=step(tell, "end"))

        assert ledger.effects(group.members) == 2
        assert told("end") == group.members
        assert tell.get_result(group.then).state == "completed"

    def test_what_follows_a_group_does_not_run_if_a_member_fails(self) -> None:
        group = enqueue_group([step(flow_tasks.give_up), step(tasks.work)], then=step(tell, "end"))

        assert (ledger.effect("end"), ledger.effects(group.members)) == (None, 1)
        with pytest.raises(TaskResultDoesNotExist):
            tell.get_result(group.then)

    def test_a_group_in_a_transaction_runs_after_its_commit(self) -> None:
        with transaction.atomic():
            enqueue_group([step(add, 1)], then=step(tell, "end"))
            assert ledger.effect("end") is None
        assert ledger.effect("end") is not None

    def test_steps_in_several_backends_are_refused(self) -> None:
        with pytest.raises(InvalidOption, match=r"several backends \(default, other\)"):
            enqueue_chain(step(add, 1), step(add.using(backend="other"), 2))

    def test_a_backend_of_django_s_own_can_not_do_it_and_says_so(self, settings: Settings) -> None:
        home = "django.tasks" if "django_tasks" not in settings.INSTALLED_APPS else "django_tasks"
        settings.TASKS = {"default": {"BACKEND": f"{home}.backends.dummy.DummyBackend"}}

        with pytest.raises(InvalidOption, match=r"TASKS\['default'\] is no backend of this queue"):
            enqueue_chain(step(add, 1), step(add, 2))
