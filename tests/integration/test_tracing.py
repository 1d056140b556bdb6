"""The recipe for traces on the page about middleware: the trace of a request goes on in its jobs."""

import re
import sys
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pytest_django import Settings

from echomq_django import enqueue_chain, step, task
from echomq_django.bus import jobs
from echomq_django.bus.message import Message
from echomq_django.bus.queue import Queue
from echomq_django.commit import commit_test_case
from echomq_django.testing import drain

otel = pytest.importorskip("opentelemetry.trace", reason="opentelemetry-api is not installed")

pytestmark = pytest.mark.django_db

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "middleware.md").read_text()
TRACE, SPAN = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
TRACEPARENT = f"00-{TRACE:032x}-{SPAN:016x}-01"

traces: list[str] = []


@task
def trace_of(*args: Any) -> None:
    traces.append(f"{otel.get_current_span().get_span_context().trace_id:032x}")


@pytest.fixture(autouse=True)
def recipe(queue: Queue, emq: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The middleware of the page, in front of all jobs."""
    [code] = re.findall(r"```python\n# app/tracing\.py\n(.*?)```", PAGE, re.DOTALL)
    module = ModuleType("recipe_for_traces")
    exec(code, module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    tasks = deepcopy(emq.TASKS)
    tasks["default"]["OPTIONS"]["middleware"] = [f"{module.__name__}.TraceMiddleware"]
    emq.TASKS = tasks
    traces.clear()


@pytest.fixture
def span() -> Any:
    """A span of a request, in its W3C form `TRACEPARENT`."""
    context = otel.SpanContext(TRACE, SPAN, is_remote=True, trace_flags=otel.TraceFlags(1))
    return otel.NonRecordingSpan(context)


def test_a_job_and_what_follows_it_belong_to_the_trace_of_the_request(queue: Queue, span: Any) -> None:
    with otel.use_span(span):
        result = enqueue_chain(step(trace_of), step(trace_of))
    commit_test_case()
    found: Any = jobs.read(queue, result.id)

    assert Message.unpack(found.body).headers == {"traceparent": TRACEPARENT}
    drain()
    assert traces == [f"{TRACE:032x}"] * 2


def test_a_job_that_belongs_to_no_trace_runs_too() -> None:
    trace_of.enqueue()
    drain()
    assert traces == ["0" * 32]
