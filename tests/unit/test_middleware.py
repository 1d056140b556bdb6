"""The stack of middleware: made once, the first is the outermost, and what it may put into headers."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from pytest_django import Settings

from echomq_django import task
from echomq_django.conf import ImproperlyConfiguredQueue
from echomq_django.exceptions import InvalidArguments
from echomq_django.middleware import Passage, headers_of, stack, wrapped

events: list[str] = []


@task
def send(number: int) -> int:
    return number


class Outer:
    def enqueue(self, passage: Passage) -> None:
        passage.headers["seen"] = passage.headers.get("seen", "") + f"outer {passage.args} "

    def run(self, passage: Passage, proceed: Callable[[], Any]) -> Any:
        events.append("outer begins")
        value = proceed()
        events.append("outer ends")
        return [value]


class Inner:
    def run(self, passage: Passage, proceed: Callable[[], Any]) -> Any:
        events.append(f"inner of {passage.job_id} at attempt {passage.attempt}")
        return proceed()


class Lazy:
    def run(self, passage: Passage, proceed: Callable[[], Any]) -> Any:
        return "not run"


class Marking:
    def enqueue(self, passage: Passage) -> None:
        passage.headers["seen"] += "marking"


class Wrong:
    value: Any = 5

    def enqueue(self, passage: Passage) -> None:
        passage.headers["n"] = self.value


class Slow:
    together = Barrier(2)

    def __init__(self) -> None:
        self.together.wait(timeout=10)


class Demanding:
    def __init__(self, number: int) -> None:
        pass


def configure(settings: Settings, *middleware: Any) -> None:
    """Set the middleware: classes of this module, or paths."""
    events.clear()
    paths = [one if isinstance(one, str) else f"{__name__}.{one.__name__}" for one in middleware]
    settings.TASKS = {
        "default": {"BACKEND": "echomq_django.testing.InlineBackend", "OPTIONS": {"middleware": paths}},
    }


def passage() -> Passage:
    return Passage(send, [1], {}, {}, "JOB1", 2)


def test_the_first_is_the_outermost_and_may_change_the_value(settings: Settings) -> None:
    configure(settings, Outer, Inner)

    def run() -> int:
        events.append("run")
        return 7

    assert wrapped("default", passage(), run) == [7]
    assert events == ["outer begins", "inner of JOB1 at attempt 2", "run", "outer ends"]


def test_one_that_does_not_proceed_keeps_the_job_from_running(settings: Settings) -> None:
    configure(settings, Lazy, Inner)

    assert wrapped("default", passage(), lambda: events.append("run")) == "not run"
    assert events == []


def test_at_enqueue_they_are_asked_in_order_and_change_what_is_inherited(settings: Settings) -> None:
    configure(settings, Outer, Inner, Marking)

    inherited = {"seen": "before "}
    assert headers_of("default", send, [1], {}, inherited) == {"seen": "before outer [1] marking"}
    assert inherited == {"seen": "before "}
    assert headers_of("default", send, [1], {}) == {"seen": "outer [1] marking"}


@pytest.mark.parametrize("value", [5, None, "two\nlines", "nul\0"], ids=repr)
def test_headers_are_printable_text(settings: Settings, monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    configure(settings, Wrong)
    monkeypatch.setattr(Wrong, "value", value)

    with pytest.raises(InvalidArguments, match=r"headers\['n'\] = .*: middleware must set printable text"):
        headers_of("default", send, [], {})


def test_without_middleware_nothing_is_wrapped(settings: Settings) -> None:
    configure(settings)

    assert wrapped("default", passage(), lambda: 7) == 7
    assert headers_of("default", send, [], {}) == {}


def test_the_stack_is_made_once_until_the_settings_change(settings: Settings) -> None:
    configure(settings, Outer)
    made = stack("default")
    assert stack("default") is made

    configure(settings, Inner)
    assert [type(one) for one in stack("default")] == [Inner]


def test_threads_that_ask_first_at_once_get_one_stack(settings: Settings) -> None:
    configure(settings, Slow)

    with ThreadPoolExecutor(2) as threads:
        one, other = [made.result() for made in [threads.submit(stack, "default") for _ in range(2)]]

    assert one is other


@pytest.mark.parametrize("path", ["no.such.module.Class", f"{__name__}.Missing", f"{__name__}.Demanding"])
def test_what_can_not_be_made_is_said_with_its_path(settings: Settings, path: str) -> None:
    configure(settings, path)

    with pytest.raises(ImproperlyConfiguredQueue, match=rf"\['middleware'\]: '{path}' is no class that can be made"):
        stack("default")
