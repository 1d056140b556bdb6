"""A call as data that waits inside another job, and the way back."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from echomq_django import step, task
from echomq_django.bus.message import Message
from echomq_django.exceptions import InvalidArguments, InvalidOption
from echomq_django.steps import next_job
from echomq_django.tasks import resolve


@task
def first(number: int) -> int:
    return number


@task(max_failures=2, lane=lambda value, **kwargs: f"lane-{value}", priority=3)
def second(value: Any, *, key: str = "") -> None:
    pass


def job_after(step_: Any, value: Any, *rest: Any, headers: dict[str, str] | None = None) -> Any:
    """Return (queue, job, message) of what follows a job that has returned `value`."""
    chain = json.loads(json.dumps([one.to_data() for one in (step_, *rest)]))
    _, plan, job = next_job(chain, value, "default", headers or {})
    return plan.queue, job, Message.unpack(job.body)


def test_the_value_of_the_step_before_comes_first() -> None:
    queue, job, message = job_after(step(second, key="k"), [1, {"a": None}])

    assert (queue, message.task) == ("default", second.module_path)
    assert json.loads(message.payload) == [[[1, {"a": None}]], {"key": "k"}]
    assert (job.priority, job.lane) == (3, "lane-[1, {'a': None}]")


def test_what_using_has_changed_comes_along_and_nothing_else_is_written_down() -> None:
    changed = second.using(queue_name="emails", priority=-5, max_failures=7, backoff=[1, 2], lane="blue", expires=5)
    assert step(changed).to_data().keys() == {"task", "args", "kwargs", "options", "queue_name", "priority"}
    assert step(second).to_data() == {"task": second.module_path, "args": [], "kwargs": {}, "options": {}}

    queue, job, message = job_after(step(changed), 1)

    assert (queue, job.priority, job.lane, job.extras) == ("emails", -5, "blue", {"expires": 5000})
    assert message.options == {"max_failures": 7, "backoff": [1, 2]}


def test_the_rest_of_the_chain_goes_along() -> None:
    rest = [step(first, 1), step(second)]
    _, _, message = job_after(step(first), 1, *rest)

    assert message.options == {"chain": [one.to_data() for one in rest]}


def test_a_task_that_has_become_unique_since_ends_no_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = [step(second).to_data()]
    resolve.cache_clear()
    monkeypatch.setitem(globals(), "second", second.using(unique="done"))
    assert resolve(second.module_path).options.unique == "done"

    _, _, job = next_job(chain, 1, "default", {})
    resolve.cache_clear()

    assert job.extras is None


def test_headers_are_handed_on() -> None:
    _, _, message = job_after(step(first), 1, headers={"trace": "a"})

    assert message.headers == {"trace": "a"}


@pytest.mark.parametrize(
    ("call", "error", "complaint"),
    [
        (step(second, {1}), InvalidArguments, r"args\[0\] is of the type set"),
        (step(second, key=b""), InvalidArguments, r'kwargs\["key"\]'),
        (step(first.using(run_after=datetime.now(UTC) + timedelta(hours=1))), InvalidOption, "can't have run_after"),
        (step(first.using(lane=lambda value: "x")), InvalidOption, "only data can travel with a call"),
        (step(first.using(unique="done")), InvalidOption, "can't be unique"),
    ],
    ids=["argument", "keyword", "run_after", "code", "unique"],
)
def test_what_can_not_wait_is_refused(call: Any, error: type[Exception], complaint: str) -> None:
    with pytest.raises(error, match=complaint):
        call.to_link()
