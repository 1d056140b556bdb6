"""What operators see of dead jobs in the admin, and what their clicks do."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from echomq_django.admin import acting
from echomq_django.bus import jobs
from echomq_django.bus.message import Message
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import Failure
from echomq_django.floor.dead_letters import discard, mirror, requeue
from echomq_django.models import DeadJob, OutboxJob
from tests.bus import scenes
from tests.integration.pages import has_inline_code, logged_in, said, text_of

pytestmark = pytest.mark.django_db(transaction=True)

LIST = "/admin/echomq_django/deadjob/"


@pytest.fixture
def ana() -> Client:
    """An operator with all permissions on dead jobs."""
    return logged_in("ana", "view_deadjob", "requeue_deadjob", "discard_deadjob")


@pytest.fixture
def row(queue: Queue) -> DeadJob:
    """A job that died and was mirrored."""
    scenes.dead(queue)
    return mirror(queue, "default")[0]


def stored(number: int = 1, **facts: Any) -> list[DeadJob]:
    """Store dead jobs that no server knows."""
    known = {"backend": "default", "queue": "default", "task": "app.tasks.send", "reason": "failed"}
    now = timezone.now()
    start = DeadJob.objects.count()
    return DeadJob.objects.bulk_create(
        DeadJob(**{"job_id": f"JOB{start + n:026d}", "death_key": f"{n}:00", "died_at": now} | known | facts)
        for n in range(number)
    )


def page_of(row: DeadJob, act: str = "change") -> str:
    return reverse(f"admin:echomq_django_deadjob_{act}", args=[row.pk])


def chosen(*rows: DeadJob, **more: Any) -> dict[str, Any]:
    """Return what a list sends that has `rows` ticked."""
    return {"action": "requeue", "_selected_action": [row.pk for row in rows], "index": 0, "select_across": 0} | more


def confirmed(*rows: DeadJob, **more: Any) -> dict[str, Any]:
    """Return what the page sends that asked for confirmation."""
    form = chosen(*rows, post="yes", **more)
    del form["index"]
    return form


def test_the_list_tells_of_each_death_when_where_and_why(ana: Client, row: DeadJob) -> None:
    page = text_of(ana.get(LIST))

    for shown in ("app.tasks.send", "default", "failed", "app.Boom", "no paper", "dead"):
        assert shown in page
    assert f'datetime="{row.died_at.isoformat(timespec="milliseconds")}"' in ana.get(LIST).content.decode()


def test_the_page_of_a_job_that_is_in_a_group_names_the_group_and_no_other_page_does(ana: Client) -> None:
    [alone] = stored()
    [member] = stored(group={"id": "JOBGROUP", "size": 3})

    assert "JOBGROUP" in text_of(ana.get(page_of(member)))
    assert "group" not in text_of(ana.get(page_of(alone))).lower()


def test_the_list_is_ordered_by_death_and_reads_nothing_large(ana: Client) -> None:
    now = timezone.now()
    for hours in (2, 0, 1):
        stored(
            died_at=now - timedelta(hours=hours), task=f"app.task_{hours}", payload=b"x" * 50_000, traceback="t" * 9000
        )

    with CaptureQueriesContext(
        connection,
    ) as queries:
        rows = list(ana.get(LIST).context["cl"].result_list)

    assert [row.task for row in rows] == ["app.task_0", "app.task_1", "app.task_2"]
    lists = [query["sql"] for query in queries if '"echomq_django_deadjob"' in query["sql"]]
    assert lists
    for column in ("payload", "traceback", "args", "kwargs", "headers"):
        assert not any(f'"echomq_django_deadjob"."{column}"' in sql for sql in lists)


@pytest.mark.parametrize("number", [1, 120])
def test_a_page_of_the_list_takes_the_same_few_queries_however_long_it_is(ana: Client, number: int) -> None:
    stored(number)
    ana.get(LIST)

    with CaptureQueriesContext(connection) as queries:
        assert ana.get(LIST, {"state__exact": "dead", "q": "JOB" + "0" * 26}).status_code == 200

    assert len(queries) <= 7, [query["sql"] for query in queries]


def test_a_list_that_is_too_long_to_page_through_says_so(ana: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting, "LIMIT", 60)
    stored(70)

    response = ana.get(LIST)

    assert "60 dead jobs" in text_of(response)
    assert said(response) == ["These are the newest 60 that match. Narrow the filters or search an id to reach others."]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("state__exact=dead", {"a", "b"}),
        ("state__exact=discarded", {"c"}),
        ("queue=emails", {"b"}),
        ("reason=stalled", {"a"}),
        ("task=app.tasks.other", {"c"}),
        ("error_class=app.Boom", {"b"}),
        ("fingerprint=abcdefabcdef", {"c"}),
        ("since=24", {"a", "b"}),
        ("since=x", {"a", "b", "c"}),
        ("queue=nothing-like-that", set()),
        ("q=JOBB", {"b"}),
        ("q=JOB", set()),
    ],
)
def test_filters_and_search_narrow_the_list(ana: Client, query: str, found: set[str]) -> None:
    stored(job_id="JOBA", lane="a", reason="stalled")
    stored(job_id="JOBB", lane="b", queue="emails", error_class="app.Boom")
    long_ago = timezone.now() - timedelta(days=3)
    facts: dict[str, Any] = {"task": "app.tasks.other", "fingerprint": "abcdefabcdef", "died_at": long_ago}
    stored(job_id="JOBC", lane="c", state="discarded", **facts)

    response = ana.get(f"{LIST}?{query}")

    assert {row.lane for row in response.context["cl"].result_list} == found


def test_a_filter_offers_what_died_lately_and_what_is_chosen(ana: Client) -> None:
    stored(queue="emails", reason="stalled")

    response = ana.get(LIST, {"queue": "of-last-year"})

    choices = {
        spec.title: [title for _, title in spec.lookup_choices] for spec in response.context["cl"].filter_specs[1:4]
    }
    assert choices == {"reason": ["stalled"], "queue": ["emails", "of-last-year"], "task": ["app.tasks.send"]}


def test_the_page_of_a_death_shows_everything_escaped(ana: Client, queue: Queue) -> None:
    script = "<script>alert(1)</script>"
    body = Message(script, b'[["<script>alert(2)</script>"], {"a": "</pre>"}]', "default", {"h": script}).pack()
    job = scenes.active(queue, lane=script, body=body)[0]
    failure = Failure("failed", script, script, f"Traceback\n{script}")
    jobs.die(queue, scenes.W1, [jobs.Death(job.job_id, job.token, failure)])
    [row] = mirror(queue, "default")

    for url in (page_of(row), LIST, f"{LIST}?task={script}"):
        html = ana.get(url).content.decode()
        assert "alert(" in html
        assert "<script>alert" not in html
        assert html.count("</pre>") == html.count("<pre")


def test_the_page_of_a_death_lists_the_other_deaths_of_the_job(ana: Client, queue: Queue, row: DeadJob) -> None:
    requeue([row.pk], "bob")
    [again] = jobs.claim(queue, scenes.W1, scenes.nonce(), 1)
    jobs.die(queue, scenes.W1, [scenes.death(again)])
    [second] = mirror(queue, "default")

    page = ana.get(page_of(second))

    assert f'href="{page_of(row)}"' in page.content.decode()
    assert "Other deaths of this job" in text_of(page)


def test_arguments_that_cannot_be_read_are_shown_as_the_bytes_they_are(ana: Client) -> None:
    [row] = stored(payload=b"\x00\xff<b>", args=None, kwargs=None)

    assert "b'\\x00\\xff<b>'" in text_of(ana.get(page_of(row)))


def test_the_button_on_the_page_requeues_the_job_and_writes_it_down(ana: Client, queue: Queue, row: DeadJob) -> None:
    assert f'action="{page_of(row, "requeue")}"' in ana.get(page_of(row)).content.decode()

    response = ana.post(page_of(row, "requeue"), follow=True)

    assert said(response) == ["1 dead job was requeued."]
    assert [job.job_id for job in jobs.claim(queue, scenes.W1, scenes.nonce(), 9)] == [row.job_id]
    entry = LogEntry.objects.get()
    assert (entry.user.username, entry.object_id) == ("ana", str(row.pk))
    assert entry.get_change_message() == "1 dead job was requeued."
    assert page_of(row, "requeue") not in response.content.decode()


def test_a_double_click_and_a_reload_requeue_once_and_say_who_was_first(
    ana: Client, queue: Queue, row: DeadJob
) -> None:
    ana.post(page_of(row, "requeue"))
    for _ in range(2):
        response = ana.post(page_of(row, "requeue"), follow=True)
        assert re.fullmatch(rf"{row.job_id} was already requeued by ana at .*\d{{4}}.*\.", said(response)[-1])

    assert len(jobs.claim(queue, scenes.W1, scenes.nonce(), 9)) == 1
    assert LogEntry.objects.count() == 1


def test_the_second_of_two_operators_is_told_what_the_first_did(ana: Client, queue: Queue, row: DeadJob) -> None:
    bob = logged_in("bob", "view_deadjob", "requeue_deadjob", "discard_deadjob")
    ana.post(page_of(row, "requeue"))

    for act in ("requeue", "discard"):
        response = bob.post(page_of(row, act), {"post": "yes"}, follow=True)
        assert f"{row.job_id} was already requeued by ana at" in said(response)[-1]
    response = bob.post(LIST + "?state__exact=dead", confirmed(row), follow=True)
    assert f"{row.job_id} was already requeued by ana at" in said(response)[-1]

    assert len(jobs.claim(queue, scenes.W1, scenes.nonce(), 9)) == 1


def test_reading_pages_changes_nothing(ana: Client, queue: Queue, row: DeadJob) -> None:
    for url in (LIST, LIST + f"?action=requeue&_selected_action={row.pk}&post=yes", page_of(row)):
        assert ana.get(url).status_code in (200, 302)
    for act in ("requeue", "discard"):
        for method in (ana.get, ana.head, ana.put):
            assert method(page_of(row, act)).status_code == 405

    row.refresh_from_db()
    assert row.state == DeadJob.State.DEAD
    assert jobs.claim(queue, scenes.W1, scenes.nonce(), 9) == []


@pytest.mark.parametrize("act", ["requeue", "discard"])
def test_who_may_only_look_finds_no_buttons_and_is_refused(row: DeadJob, act: str) -> None:
    viewer = logged_in("eve", "view_deadjob")

    for url in (LIST, page_of(row)):
        html = viewer.get(url).content.decode()
        assert page_of(row, act) not in html
        assert f'value="{act}"' not in html
    assert viewer.post(page_of(row, act), {"post": "yes"}).status_code == 403
    assert viewer.post(LIST, confirmed(row, action=act)).status_code == 403
    row.refresh_from_db()
    assert row.state == DeadJob.State.DEAD


def test_one_permission_does_not_give_the_other(row: DeadJob) -> None:
    operator = logged_in("eve", "view_deadjob", "requeue_deadjob")

    assert operator.post(page_of(row, "discard"), {"post": "yes"}).status_code == 403
    assert operator.post(LIST, confirmed(row, action="discard")).status_code == 403
    assert operator.post(page_of(row, "requeue")).status_code == 302


@pytest.mark.parametrize("permissions", [[], ["requeue_deadjob"]])
def test_without_the_permission_to_look_there_is_no_list(row: DeadJob, permissions: list[str]) -> None:
    nobody = logged_in("eve", *permissions)

    assert nobody.get(LIST).status_code == 403
    assert nobody.get(page_of(row)).status_code == 403


def test_a_post_without_a_csrf_token_is_refused(row: DeadJob) -> None:
    client = logged_in("ana", "view_deadjob", "requeue_deadjob", "discard_deadjob", enforce_csrf_checks=True)

    assert client.post(page_of(row, "requeue")).status_code == 403
    assert client.post(LIST, confirmed(row)).status_code == 403
    row.refresh_from_db()
    assert row.state == DeadJob.State.DEAD


@pytest.mark.parametrize("address", ["add/", "{pk}/delete/"])
def test_nobody_adds_or_deletes_rows(client: Client, row: DeadJob, address: str) -> None:
    client.force_login(User.objects.create_superuser("root"))

    assert client.get(LIST + address.format(pk=row.pk)).status_code == 403
    assert client.post(LIST + address.format(pk=row.pk), {"post": "yes"}).status_code == 403
    assert client.post(page_of(row), {"state": "dead"}).status_code == 403
    assert "delete_selected" not in client.get(LIST).content.decode()


def test_the_action_of_the_list_asks_first_and_then_requeues_all_that_was_ticked(ana: Client, queue: Queue) -> None:
    scenes.dead(queue, 3)
    rows = mirror(queue, "default")

    asked = ana.post(LIST, chosen(*rows[:2]))
    assert "Requeue 2 dead jobs?" in text_of(asked)
    assert all(str(row) in text_of(asked) for row in rows[:2])
    assert DeadJob.objects.filter(state="dead").count() == 3

    answer = ana.post(LIST, confirmed(*rows[:2]), follow=True)
    assert said(answer) == ["2 dead jobs were requeued."]
    assert {job.job_id for job in jobs.claim(queue, scenes.W1, scenes.nonce(), 9)} == {row.job_id for row in rows[:2]}
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.object_repr) == (None, "2 dead jobs")
    assert all(row.job_id in entry.change_message for row in rows[:2])


def test_the_form_of_the_confirmation_page_sends_what_was_ticked(ana: Client, queue: Queue) -> None:
    scenes.dead(queue, 12)
    rows = mirror(queue, "default")

    html = ana.post(f"{LIST}?state__exact=dead", chosen(*rows, action="discard")).content.decode()

    fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', html)
    form: dict[str, Any] = {name: [value for other, value in fields if other == name] for name, _ in fields}
    ana.post(f"{LIST}?state__exact=dead", {**form, "why": "bad deploy"})
    assert set(DeadJob.objects.values_list("state", "discarded_by", "discard_reason")) == {
        ("discarded", "ana", "bad deploy")
    }
    assert "bad deploy" in LogEntry.objects.get().change_message


def test_an_act_on_all_that_match_takes_just_those(ana: Client) -> None:
    stored(60, queue="emails")
    stored(3)
    form = {"select_across": 1, "action": "discard"}

    asked = ana.post(LIST + "?queue=emails", chosen(DeadJob.objects.latest("pk"), **form))
    assert "Discard 60 dead jobs?" in text_of(asked)
    ana.post(LIST + "?queue=emails", confirmed(DeadJob.objects.latest("pk"), **form))

    assert DeadJob.objects.filter(state="discarded").count() == 60
    assert set(DeadJob.objects.filter(state="discarded").values_list("queue", flat=True)) == {"emails"}
    assert LogEntry.objects.get().change_message.startswith("60 dead jobs were discarded. queue=emails JOB")


def test_a_bulk_act_tells_how_many_it_left_alone(ana: Client) -> None:
    rows = stored(3)
    discard([rows[0].pk], "bob")

    answer = ana.post(LIST, confirmed(*rows), follow=True)

    assert said(answer)[:2] == [
        "2 dead jobs were requeued.",
        "1 dead job was left alone: it had been requeued or discarded before, or can't be read.",
    ]


def test_discarding_asks_why_and_keeps_the_answer(ana: Client, row: DeadJob) -> None:
    asked = ana.post(page_of(row, "discard"))
    assert "Why (kept with the job):" in text_of(asked)
    row.refresh_from_db()
    assert row.state == DeadJob.State.DEAD

    answer = ana.post(page_of(row, "discard"), {"post": "yes", "why": "order was cancelled"}, follow=True)

    assert said(answer) == ["1 dead job was discarded."]
    assert "discarded by ana at" in text_of(answer)
    assert "order was cancelled" in text_of(answer)


def test_a_death_that_cannot_be_read_offers_no_requeue_and_says_why(ana: Client) -> None:
    [row] = stored(reason=DeadJob.UNREADABLE, payload=b"garbage")
    html = ana.get(page_of(row)).content.decode()

    assert page_of(row, "requeue") not in html
    assert page_of(row, "discard") in html
    answer = ana.post(page_of(row, "requeue"), follow=True)
    assert said(answer) == [f"{row.job_id} can't be requeued: only the bytes of its row are left."]


def test_a_requeue_while_the_server_is_down_says_that_the_job_waits(ana: Client, outage: Any, row: DeadJob) -> None:
    with outage():
        answer = ana.post(page_of(row, "requeue"), follow=True)

    assert said(answer) == [
        "1 dead job was requeued.",
        "The server does not take jobs at the moment. 1 requeued job waits in the outbox for it.",
    ]
    assert OutboxJob.objects.count() == 1


def test_an_act_on_a_death_that_is_not_there_is_not_found(ana: Client, row: DeadJob) -> None:
    for key in (str(row.pk + 1), "x", "0" * 200):
        assert ana.post(f"{LIST}{key}/requeue/").status_code == 404


def test_no_page_needs_inline_script_or_style(ana: Client, row: DeadJob) -> None:
    pages = [ana.get(LIST), ana.get(page_of(row)), ana.post(LIST, chosen(row)), ana.post(page_of(row, "discard"))]

    for page in pages:
        assert not has_inline_code(page), page.request["PATH_INFO"]
