"""What operators see of the jobs in hand: read from the server, a page at a time."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from pytest_django import Settings

from echomq_django.bus import jobs
from echomq_django.bus.message import Message
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import Row
from echomq_django.bus.schedule import promote
from echomq_django.connection import get_bus
from echomq_django.models import Lease
from tests.bus import scenes
from tests.integration.pages import has_inline_code, logged_in, said, text_of

pytestmark = pytest.mark.django_db

LIST = "/admin/echomq_django/lease/"


@pytest.fixture
def viewer(emq: Settings) -> Client:
    """A staff user who may look at leases and do nothing else."""
    return logged_in("eve", "view_lease")


def page_of(row: Row, queue: Queue) -> str:
    return f"{LIST}default.{queue.name}.{row.job_id}/change/"


def listed(response: Any) -> list[str]:
    """Return the ids on a page of the list."""
    return [lease.job_id for lease in response.context["cl"].result_list]


def test_the_list_tells_who_holds_what_and_for_how_long_still(viewer: Client, queue: Queue) -> None:
    row = scenes.active(queue, lane="blue", lease_ms=600_000)[0]
    scenes.enqueued(queue)

    response = viewer.get(LIST)

    [lease] = response.context["cl"].result_list
    assert (lease.job_id, lease.task, lease.queue, lease.lane) == (row.job_id, "app.tasks.send", "default", "blue")
    assert (lease.holder, lease.fence, lease.attempts, lease.stalled) == (scenes.W1, row.token.fence, 1, 0)
    assert 0 <= lease.held_ms < 60_000
    assert 540_000 < lease.left_ms <= 600_000
    assert "9 min" in text_of(response)
    assert "1 lease" in text_of(response)


def test_the_least_time_left_comes_first_and_what_is_over_is_called_overdue(viewer: Client, queue: Queue) -> None:
    rows = scenes.active(queue, 3)
    scenes.expire(queue, rows[2])
    queue.client.zincrby(queue.keys.active, -90_000, rows[2].job_id)

    response = viewer.get(LIST)

    assert listed(response)[0] == rows[2].job_id
    assert "overdue 1 min 30 s" in text_of(response)
    assert listed(viewer.get(LIST + "?overdue=1")) == [rows[2].job_id]


def test_pages_are_cut_across_queues(viewer: Client, queue: Queue) -> None:
    emails = get_bus().queue("emails")
    for one in (queue, emails):
        scenes.active(one, 60)

    pages = [viewer.get(LIST, {"p": number}) for number in (1, 2, 3)]

    assert [len(listed(page)) for page in pages] == [50, 50, 20]
    assert len({job_id for page in pages for job_id in listed(page)}) == 120
    assert [lease.queue for lease in pages[1].context["cl"].result_list] == ["default"] * 10 + ["emails"] * 40
    assert "120 leases" in text_of(pages[0])


def test_a_filter_leaves_one_queue(viewer: Client, queue: Queue) -> None:
    emails = get_bus().queue("emails")
    scenes.active(queue, 2)
    [row] = scenes.active(emails)

    assert listed(viewer.get(LIST, {"queue": "default.emails"})) == [row.job_id]
    assert listed(viewer.get(LIST, {"queue": "default.emails", "overdue": "1"})) == []
    assert listed(viewer.get(LIST, {"queue": "nonsense"})) == []


def test_a_page_reads_no_more_than_it_shows(viewer: Client, queue: Queue) -> None:
    for _ in range(3):
        scenes.active(queue, 100)
    queue.client.config_resetstat()

    viewer.get(LIST, {"p": 4})

    calls = {name.removeprefix("cmdstat_"): stat["calls"] for name, stat in queue.client.info("commandstats").items()}
    assert calls.pop("get") == 50
    assert calls.keys() <= {"time", "zcard", "zcount", "zrange", "config|resetstat", "info", "client|setinfo", "hello"}
    assert calls["zrange"] == 1


@pytest.mark.parametrize("found", [b"", b"garbage", b"\x01" + b"\xff" * 60])
def test_a_job_that_ends_while_it_is_read_or_makes_no_sense_is_left_out(
    viewer: Client, queue: Queue, found: bytes
) -> None:
    rows = scenes.active(queue, 2)
    key = queue.keys.job(rows[0].job_id)
    raw: Any = queue.client.getset(key, found)

    assert listed(viewer.get(LIST)) == [rows[1].job_id]
    queue.client.set(key, raw)


def test_the_page_of_a_lease_shows_the_job_escaped(viewer: Client, queue: Queue) -> None:
    script = "<script>alert(1)</script>"
    body = Message(script, b'[["<script>alert(2)</script>\\u0000\\ud800"], {}]').pack()
    [row] = scenes.active(queue, lane=script, body=body)
    failure = jobs.Retry(row.job_id, row.token, 0, scenes.FAILURE)
    jobs.retry(queue, scenes.W1, [failure])
    scenes.make_due(queue, row.job_id)
    promote(queue)
    jobs.claim(queue, scenes.W1, scenes.nonce(), 1)

    response = viewer.get(page_of(row, queue))

    html = response.content.decode()
    assert "alert(2)" in html
    assert "<script>alert" not in html
    assert "<script>alert" not in viewer.get(LIST).content.decode()
    page = text_of(response)
    for shown in ("active", "default", scenes.W1, "failed: app.Boom", "no paper", r"\\x00\\ud800"):
        assert shown in page


def test_the_page_of_a_job_that_was_handed_back_shows_where_it_is_now(viewer: Client, queue: Queue) -> None:
    [row] = scenes.active(queue)
    jobs.release(queue, scenes.W1, [scenes.release(row)])

    assert "pending" in text_of(viewer.get(page_of(row, queue)))
    assert listed(viewer.get(LIST)) == []


@pytest.mark.parametrize(
    "key", ["default.default.{id}", "default.nope.{id}", "nope.default.{id}", "default.default.x", "x"]
)
def test_a_job_that_is_not_there_leads_back_to_the_list_with_a_message(viewer: Client, queue: Queue, key: str) -> None:
    gone = scenes.new_job(queue).job_id

    response = viewer.get(f"{LIST}{key.format(id=gone)}/change/", follow=True)

    assert response.redirect_chain[-1][0] == LIST
    assert "is not live any more" in said(response)[-1]


def test_while_the_server_is_down_the_page_says_so(viewer: Client, outage: Any) -> None:
    with outage():
        pages = [viewer.get(LIST), viewer.get(f"{LIST}default.default.JOB{'0' * 26}/change/", follow=True)]

    for page in pages:
        assert page.status_code == 200
        assert "0 leases" in text_of(page)
        assert "no answer from the server" in said(page)[0]


def test_nobody_changes_a_lease_here(queue: Queue) -> None:
    [row] = scenes.active(queue)
    client = Client()
    client.force_login(User.objects.create_superuser("root"))

    assert client.post(page_of(row, queue), {"holder": "me"}).status_code == 403
    assert client.get(LIST + "add/").status_code == 403
    assert client.post(page_of(row, queue).replace("change", "delete"), {"post": "yes"}).status_code == 403
    assert client.post(LIST, {"action": "delete_selected", "_selected_action": "x", "post": "yes"}).status_code == 200
    assert scenes.stored(queue, row.job_id) == row


def test_without_the_permission_there_is_no_list(queue: Queue) -> None:
    [row] = scenes.active(queue)
    nobody = logged_in("ann", "view_deadjob")

    assert nobody.get(LIST).status_code == 403
    assert nobody.get(page_of(row, queue)).status_code == 403


def test_no_page_needs_inline_script_or_style(viewer: Client, queue: Queue) -> None:
    [row] = scenes.active(queue)

    for url in (LIST, page_of(row, queue)):
        assert not has_inline_code(viewer.get(url))


def test_no_table_is_behind_the_model_and_nothing_asks_for_one(capsys: Any) -> None:
    assert list(Lease.objects.all()) == []
    assert list(Lease._base_manager.all()) == []
    call_command("dumpdata", "echomq_django")
    assert capsys.readouterr().out.strip() == "[]"
