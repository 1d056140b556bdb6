"""What the page of a job says of its group and of its chain."""

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from echomq_django import enqueue_chain, enqueue_group, step
from echomq_django.admin import live
from echomq_django.backend import GroupResult
from echomq_django.bus import jobs
from echomq_django.bus.queue import Queue
from echomq_django.floor.dead_letters import mirror
from echomq_django.models import DeadJob
from tests.bus import scenes
from tests.chaos.flow_tasks import add, tell
from tests.integration.pages import logged_in, text_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def viewer(emq: Settings) -> Client:
    """A staff user who may look at jobs and do nothing else."""
    return logged_in("eve", "view_lease", "view_deadjob")


def page_of(job_id: str, queue: str = "default") -> str:
    return reverse("admin:echomq_django_lease_change", args=[live.key_of("default", queue, job_id)])


def group_of_three(then_queue: str = "default") -> GroupResult:
    members = [step(add, 1, number) for number in range(3)]
    return enqueue_group(members, then=step(tell.using(queue_name=then_queue), "end"))


def end_well(queue: Queue, count: int) -> None:
    rows = jobs.claim(queue, scenes.W1, scenes.nonce(), count)
    jobs.complete(queue, scenes.W1, [scenes.completion(row) for row in rows])


@pytest.mark.parametrize("then_queue", ["default", "emails"])
def test_a_job_that_waits_for_a_group_says_how_many_members_are_over(
    viewer: Client, queue: Queue, then_queue: str
) -> None:
    group = group_of_three(then_queue)
    end_well(queue, 2)

    page = text_of(viewer.get(page_of(group.then, then_queue)))

    assert "Waits for a group: 2 of 3 jobs are over." in page


@pytest.mark.parametrize("then_queue", ["default", "emails"])
def test_a_member_leads_to_the_job_that_waits_for_its_group(viewer: Client, queue: Queue, then_queue: str) -> None:
    group = group_of_three(then_queue)

    response = viewer.get(page_of(group.members[0]))

    assert f"One of the 3 jobs of group {group.id}." in text_of(response)
    assert f'<a href="{page_of(group.then, then_queue)}">' in response.content.decode()
    assert viewer.get(page_of(group.then, then_queue)).status_code == 200


def test_a_job_of_a_chain_names_the_tasks_that_follow_it_also_when_it_is_dead(viewer: Client, queue: Queue) -> None:
    first = enqueue_chain(step(add, 1), step(add, 2), step(tell, "end"))
    words = f"When it has ended well: {add.module_path} → {tell.module_path}"

    assert words in text_of(viewer.get(page_of(first.id)))

    [row] = jobs.claim(queue, scenes.W1, scenes.nonce(), 1)
    jobs.die(queue, scenes.W1, [scenes.death(row)])
    mirror(queue, "default")
    dead = DeadJob.objects.get(job_id=first.id)
    assert words in text_of(viewer.get(reverse("admin:echomq_django_deadjob_change", args=[dead.pk])))


def test_a_long_chain_is_cut_and_says_so(viewer: Client, queue: Queue) -> None:
    first = enqueue_chain(*[step(add, 1) for _ in range(30)])

    page = text_of(viewer.get(page_of(first.id)))

    assert page.count(add.module_path) == 1 + 20
    assert "and 9 more" in page


def test_a_job_alone_says_nothing_of_either(viewer: Client, queue: Queue) -> None:
    result = add.enqueue(1, 2)

    page = text_of(viewer.get(page_of(result.id)))

    assert "group" not in page.lower()
    assert "chain" not in page.lower()
