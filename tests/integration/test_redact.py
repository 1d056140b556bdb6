"""Arguments that nobody is to see: not in the admin, not in the copies of a death, not in the log."""

import json
import logging
from typing import Any

import pytest
from pytest_django import Settings

from echomq_django import enqueue_chain, step, task
from echomq_django.bus import jobs
from echomq_django.bus.queue import Queue
from echomq_django.commit import commit_test_case
from echomq_django.exceptions import InvalidOption
from echomq_django.floor.dead_letters import requeue
from echomq_django.models import DeadJob
from echomq_django.testing import drain
from tests.bus import scenes
from tests.integration.pages import logged_in

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("queue")]

got: list[Any] = []


@task(redact=["password"], max_failures=1)
def sign_in(name: str, password: str) -> None:
    got.append(password)
    raise PermissionError(name)


@task(max_failures=1)
def first(name: str) -> None:
    raise PermissionError(name)


@task(redact=["password"], max_failures=1)
def after(value: Any, password: str) -> None: ...


@pytest.mark.parametrize("call", [(("ana", "s3cret"), {}), (("ana",), {"password": "s3cret"})], ids=["args", "kwargs"])
def test_a_death_hides_the_argument_and_a_requeue_brings_it_back(call: Any, caplog: pytest.LogCaptureFixture) -> None:
    args, kwargs = call
    got.clear()
    with caplog.at_level(logging.DEBUG):
        sign_in.enqueue(*args, **kwargs)
        drain(raises=False)

    dead = DeadJob.objects.get()
    assert "s3cret" not in json.dumps([dead.args, dead.kwargs])
    assert "[redacted]" in json.dumps([dead.args, dead.kwargs])
    assert json.loads(bytes(dead.payload)) == [list(args), kwargs]
    assert "s3cret" not in caplog.text
    assert "s3cret" not in dead.traceback

    requeue([dead.pk], "ana")
    drain(raises=False)
    assert got == ["s3cret", "s3cret"]


def test_the_page_of_a_death_hides_it_and_what_a_later_step_hides() -> None:
    enqueue_chain(step(first, "ana"), step(after, "s3cret"), step(after, password="s3cret"))
    sign_in.enqueue("bo", "s3cret")
    drain(raises=False)
    viewer = logged_in("eve", "view_deadjob")

    for dead in DeadJob.objects.all():
        page = viewer.get(f"/admin/echomq_django/deadjob/{dead.pk}/change/").content.decode()
        assert "[redacted]" in page
        assert "s3cret" not in page
    assert json.dumps(DeadJob.objects.get(task__endswith="first").options).count("s3cret") == 2


def test_the_page_of_a_lease_hides_it(queue: Queue) -> None:
    sign_in.enqueue("ana", "s3cret")
    commit_test_case()
    [row] = jobs.claim(queue, scenes.W1, scenes.nonce(), 1)

    page = logged_in("eve", "view_lease").get(f"/admin/echomq_django/lease/default.default.{row.job_id}/change/")

    assert "[redacted]" in page.content.decode()
    assert "s3cret" not in page.content.decode()


def test_arguments_that_can_not_be_read_are_not_shown_either() -> None:
    sign_in.enqueue("ana", "s3cret")
    drain(raises=False)
    DeadJob.objects.update(args=None, kwargs=None)
    pk = DeadJob.objects.get().pk

    page = logged_in("eve", "view_deadjob").get(f"/admin/echomq_django/deadjob/{pk}/change/").content.decode()

    assert "some of them are not to be shown" in page
    assert "s3cret" not in page


def test_one_call_may_hide_more(queue: Queue, emq: Settings) -> None:
    sign_in.using(redact=["name", "password"]).enqueue("ana", "s3cret")
    drain(raises=False)
    assert DeadJob.objects.get().args == ["[redacted]", "[redacted]"]

    with pytest.raises(InvalidOption, match="did you mean 'password'"):
        sign_in.using(redact=["pasword"])
