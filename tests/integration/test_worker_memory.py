"""A child that runs for long does not grow, whatever its handlers leave behind."""

import json
import sys

import pytest

from echomq_django import enqueue_many
from echomq_django.bus.queue import Queue
from tests.chaos import seen, tasks
from tests.chaos.crew import Crew

pytest_plugins = ["tests.chaos.fixtures"]

MIB = 1 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much memory another process has")
@pytest.mark.parametrize("lease", [60.0])
def test_thousands_of_queries_in_debug_mode_and_failures_with_large_frames_leave_no_trace_in_memory(
    crew: Crew, queue: Queue
) -> None:
    """C69, Koed00/django-q#621."""
    numbers = iter(range(3_500))
    samples = []
    for count in (1_000, 2_500):
        enqueue_many(tasks.query_and_maybe_fail, [((next(numbers),), {}) for _ in range(count)])
        samples.append(tasks.resident_memory.enqueue().id)
    crew.start(EMQ_TEST_DEBUG="1", EMQ_TEST_CONN_MAX_AGE="600")

    warm, last = (json.loads(end.value) for end in seen.done(queue, *samples, within=120))

    assert last - warm < 4 * MIB
