"""Which jobs an event loop may begin by itself."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest

from echomq_django.bus.message import Message
from echomq_django.bus.row import Row, State
from echomq_django.framework import framework_logger, task_started
from echomq_django.worker.board import boottime
from echomq_django.worker.executor import Executor
from echomq_django.worker.hands import Held

IN_COROUTINE, IN_FUNCTION = "tests.chaos.tasks.sleep_and_work", "tests.chaos.tasks.work"


@contextmanager
def a_listener() -> Iterator[None]:
    def listen(**kwargs: Any) -> None: ...

    task_started.connect(listen)
    try:
        yield
    finally:
        task_started.disconnect(listen)


def held(path: str, left: float = 30.0) -> Held:
    row = Row("JOB", State.ACTIVE, "", 0, 3, 30_000, 1, 1, Message(path, b"[[],{}]").pack())
    return Held(None, 0, row, boottime() + left, boottime())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "left", "around", "light"),
    [
        (IN_COROUTINE, 30.0, nullcontext, True),
        (IN_FUNCTION, 30.0, nullcontext, False),
        ("tests.chaos.tasks.nobody_knows_this", 30.0, nullcontext, False),
        (IN_COROUTINE, -1.0, nullcontext, False),
        (IN_COROUTINE, 30.0, a_listener, False),
    ],
    ids=["coroutine", "function", "unknown", "lease over", "listener"],
)
def test_a_job_is_light_if_its_start_waits_for_nothing_and_calls_nothing_of_the_project(
    path: str,
    left: float,
    around: Callable[[], AbstractContextManager[None]],
    light: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, logger=framework_logger.name)  # Django's own receiver logs each start at INFO
    with around():
        assert Executor("default", "host:1:one").is_light(held(path, left)) is light
