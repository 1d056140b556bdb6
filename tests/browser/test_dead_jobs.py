"""An operator sends dead jobs back to work in a real browser."""

import pytest
from playwright.sync_api import Page, expect

from echomq_django.bus import jobs
from echomq_django.bus.queue import Queue
from echomq_django.connection import get_bus
from echomq_django.floor.dead_letters import mirror
from echomq_django.models import DeadJob
from tests.bus import scenes

LIST = "/admin/echomq_django/deadjob/"


@pytest.fixture
def queue(site: str) -> Queue:
    """The queue of the site."""
    return get_bus().queue("default")


def test_a_dead_job_is_found_read_and_requeued(ana: Page, queue: Queue) -> None:
    scenes.dead(queue)
    [row] = mirror(queue, "default")

    ana.goto(LIST)
    ana.locator("#result_list").get_by_role("link", name="app.tasks.send").click()
    ana.get_by_text("Traceback", exact=True).first.click()
    expect(ana.get_by_text("Traceback: line 1")).to_be_visible()
    expect(ana.get_by_text('"to": "a@example.org"')).to_be_visible()
    ana.get_by_role("button", name="Requeue").click()

    expect(ana.get_by_text("1 dead job was requeued.")).to_be_visible()
    expect(ana.get_by_text("requeued by ana at")).to_be_visible()
    expect(ana.get_by_role("button", name="Requeue")).to_have_count(0)
    assert [job.job_id for job in jobs.claim(queue, scenes.W1, scenes.nonce(), 9)] == [row.job_id]


def test_a_double_click_on_requeue_revives_the_job_once(ana: Page, queue: Queue) -> None:
    scenes.dead(queue)
    mirror(queue, "default")

    ana.goto(LIST)
    ana.locator("#result_list").get_by_role("link", name="app.tasks.send").click()
    ana.get_by_role("button", name="Requeue").dblclick()

    expect(ana.get_by_text("requeued by ana at").first).to_be_visible()
    assert len(jobs.claim(queue, scenes.W1, scenes.nonce(), 9)) == 1


def test_many_dead_jobs_are_discarded_after_a_question(ana: Page, queue: Queue) -> None:
    scenes.dead(queue, 60)
    mirror(queue, "default")

    ana.goto(LIST + "?reason=failed")
    ana.get_by_label("Select all objects on this page for an action").check()
    ana.get_by_text("Select all 60 dead jobs").click()
    ana.get_by_label("Action:").select_option("discard")
    ana.get_by_role("button", name="Run").or_(ana.get_by_role("button", name="Go")).click()
    expect(ana.get_by_text("Discard 60 dead jobs?")).to_be_visible()
    ana.get_by_label("Why").fill("bad deploy")
    ana.get_by_role("button", name="Discard").click()

    expect(ana.get_by_text("60 dead jobs were discarded.")).to_be_visible()
    assert "reason=failed" in ana.url
    assert DeadJob.objects.filter(state="discarded", discard_reason="bad deploy").count() == 60


def test_the_leases_are_listed_and_lead_to_their_jobs(ana: Page, queue: Queue) -> None:
    rows = scenes.active(queue, 60)
    scenes.expire(queue, rows[0])

    ana.goto("/admin/echomq_django/lease/")
    expect(ana.get_by_text("60 leases")).to_be_visible()
    ana.get_by_role("link", name="Overdue only").click()
    expect(ana.get_by_text("1 lease", exact=False)).to_be_visible()
    ana.get_by_role("link", name=rows[0].job_id).click()

    expect(ana.get_by_text('"to": "a@example.org"')).to_be_visible()
