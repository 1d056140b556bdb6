"""Hosts whose clocks are wrong, and a server whose clock is set back."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from echomq_django.bus.queue import Queue
from echomq_django.bus.recovery import recover
from echomq_django.embedded import Valkey
from tests.bus.scenes import server_ms
from tests.chaos import ledger, seen, tasks
from tests.chaos.clocks import needs_wrong_clocks, wrong_as_said_in, wrong_by
from tests.chaos.crew import Crew
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]
pytestmark = needs_wrong_clocks

WEB, WORKER, STEP = 300.0, -300.0, 60.0


@pytest.fixture(scope="module")
def servers_error(server_directory: Path) -> Path:
    """The file that says by how many seconds the server's clock is wrong."""
    file = server_directory / "error-of-clock"
    file.write_text("+0")
    return file


@pytest.fixture(scope="module")
def valkey(server_directory: Path, servers_error: Path) -> Iterator[Valkey]:
    """A server of its own whose clock can be set."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in wrong_as_said_in(servers_error).items():
            patch.setenv(name, value)
        server = Valkey(server_directory / "clocks").start()
    yield server
    server.stop()


def enqueued_by_a_web_host() -> str:
    """Enqueue a job by a process whose clock is ahead."""
    producer = [sys.executable, "-m", "tests.chaos.hurried_producer"]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.chaos.settings", **wrong_by(WEB)}
    printed = subprocess.run(producer, check=True, stdout=subprocess.PIPE, timeout=60, env=environment).stdout
    return printed.decode().strip()


def test_delays_and_leases_follow_the_clock_of_the_server_alone(crew: Crew, queue: Queue, gate: Path) -> None:
    """C55, sidekiq/sidekiq#2800."""
    dying = tasks.hold.enqueue(str(gate)).id
    doomed = crew.start(**wrong_by(WORKER))
    until(lambda: ledger.starts(dying))
    assert 0 < seen.active(queue)[dying] - server_ms(queue) <= 2000

    before = server_ms(queue)
    delayed = enqueued_by_a_web_host()
    due = seen.due_at(queue, delayed)
    assert before + 3000 <= due + 500
    assert due <= server_ms(queue) + 3000

    other = crew.start(**wrong_by(WORKER)).ready()
    lease = seen.active(queue)[dying]
    until(lambda: seen.active(queue)[dying] > lease + 2000)
    assert ledger.starts(dying) == 1
    doomed.kill()
    killed_at = server_ms(queue)

    [end, revived] = seen.done(queue, delayed, dying)
    assert end.started_at >= due
    assert (end.attempts, revived.attempts) == (1, 2)
    assert revived.started_at > killed_at
    assert other.stop() == 0


def test_a_clock_that_is_set_back_and_forth_takes_no_lease_hurries_no_job_and_stops_no_recovery(
    crew: Crew, queue: Queue, gate: Path, tmp_path: Path, servers_error: Path
) -> None:
    """C55, sidekiq/sidekiq#2800."""
    dying = tasks.hold.enqueue(str(gate)).id
    doomed = crew.start()
    until(lambda: ledger.starts(dying))
    crew.start("--threads", "2")
    steady = tasks.hold.enqueue(str(tmp_path / "other gate")).id
    until(lambda: ledger.starts(steady))
    delayed = tasks.work.using(run_after=timezone.now() + timedelta(seconds=20)).enqueue().id
    due, lease = seen.due_at(queue, delayed), seen.active(queue)[steady]

    doomed.kill()
    servers_error.write_text(f"{-STEP:+}")
    [end] = seen.done(queue, dying)
    assert (end.attempts, ledger.starts(dying)) == (2, 2)
    assert seen.active(queue)[steady] < lease - STEP * 1000 / 2
    seen.done(queue, tasks.work.enqueue().id)
    assert seen.due_at(queue, delayed) == due

    servers_error.write_text("+0")
    recover(queue)  # as another worker whose beat comes before the renewal
    [end] = seen.done(queue, delayed)
    assert end.started_at >= due
    seen.beats(queue, 5)
    assert (ledger.starts(steady), seen.stalls(queue, steady)) == (1, 0)
    (tmp_path / "other gate").touch()
    [end] = seen.done(queue, steady)
    assert end.attempts == 1
