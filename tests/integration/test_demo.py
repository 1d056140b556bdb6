"""The demo as its user meets it: a process that prints where its page is, and leaves nothing behind."""

import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest

from tests.running_demo import MANAGE, PATIENCE, RunningDemo, Visitor, environment, poll


@pytest.fixture(scope="module")
def demo() -> Iterator[RunningDemo]:
    with RunningDemo() as demo:
        yield demo


@pytest.fixture
def visitor(demo: RunningDemo) -> Visitor:
    """Somebody who comes when the bot has nothing to do."""
    visitor = Visitor(demo)
    poll(visitor.jobs, lambda jobs: all(job["place"] in {"done", "dead"} for job in jobs))
    return visitor


def test_the_printed_addresses_answer(demo: RunningDemo, visitor: Visitor) -> None:
    assert "Echo bot" in visitor.get(demo.page)
    assert "dead job" in visitor.sign_in().lower()
    assert "lease" in visitor.get(demo.leases).lower()


def test_the_demo_runs_on_postgresql(demo: RunningDemo) -> None:
    assert "SQLite" not in demo.output


def test_a_command_is_done_and_answered_once(visitor: Visitor) -> None:
    visitor.press("ask", kind="echo", text="hello", times="1")
    job = visitor.job_when(lambda job: job["place"] == "done")
    assert (job["starts"], job["reply"]) == (1, "hello … ello … llo … lo … o")


def test_twenty_commands_are_twenty_jobs(visitor: Visitor) -> None:
    before = len(visitor.jobs())
    visitor.press("ask", kind="echo", text="again", times="20")
    assert len(visitor.jobs()) == before + 20
    poll(visitor.jobs, lambda jobs: all(job["place"] == "done" for job in jobs[:20]))


def test_a_job_whose_worker_is_killed_comes_back_and_has_its_effect_once(demo: RunningDemo, visitor: Visitor) -> None:
    visitor.press("ask", kind="dig", text="", times="1")
    visitor.job_when(lambda job: job["running"] and job["starts"] == 1)
    page = visitor.press("kill", what="worker")
    assert "was killed while it held 1 job" in page
    demo.read_until("takes its place")
    job = visitor.job_when(lambda job: job["place"] == "done")
    assert (job["starts"], job["reply"]) == (2, "Found gold, 24 spits down.")


def test_a_job_whose_process_is_killed_comes_back(visitor: Visitor) -> None:
    visitor.press("ask", kind="dig", text="", times="1")
    visitor.job_when(lambda job: job["running"] and job["starts"] == 1)
    visitor.press("kill", what="process")
    visitor.job_when(lambda job: job["running"] and job["starts"] == 2)


def test_a_command_that_fails_too_often_is_a_dead_job_in_the_admin(visitor: Visitor) -> None:
    visitor.press("ask", kind="stumble", text="a root", times="1")
    job = visitor.job_when(lambda job: job["place"] == "dead")
    assert job["starts"] == 3
    poll(visitor.sign_in, lambda dead_jobs: "Stumbled" in dead_jobs)


def test_a_command_that_kills_its_process_is_dead_after_three_stalls(visitor: Visitor) -> None:
    visitor.press("ask", kind="poison", text="", times="1")
    job = visitor.job_when(lambda job: job["place"] == "dead")
    assert job["starts"] == 3


def test_nothing_is_killed_while_no_job_is_in_hand(visitor: Visitor) -> None:
    assert "Nothing was killed" in visitor.press("kill", what="worker")


def test_whoever_asks_for_the_head_of_a_page_gets_it(demo: RunningDemo, visitor: Visitor) -> None:
    assert visitor.get(demo.page, "HEAD") == ""
    assert visitor.get(f"{demo.page}state.json", "HEAD") == ""


def test_the_sweepers_of_the_page_count_each_lease_once_with_the_script_and_not_with_the_loop(visitor: Visitor) -> None:
    visitor.press("sweep")
    found = visitor.state()["sweep"]
    assert found["script"].items() >= {"reported": 1000, "counted": 1000, "wrong": 0, "condemned": 0}.items()
    assert found["loop"]["reported"] > 1000


def test_quiet_tenants_are_home_early_on_the_track_with_lanes(visitor: Visitor) -> None:
    visitor.press("race")
    assert "The race is still on." in visitor.press("race")
    state = poll(visitor.state, lambda state: all(runner["done"] == runner["laps"] for runner in runners(state)))
    lanes, line = (runners({"race": [track]}) for track in state["race"])
    assert max(quiet["seconds"] for quiet in lanes[1:]) < lanes[0]["seconds"] / 2
    assert max(quiet["seconds"] for quiet in line[1:]) > line[0]["seconds"] / 2


def runners(state: dict[str, Any]) -> list[dict[str, Any]]:
    return [runner for track in state["race"] for runner in track["runners"]]


@pytest.mark.parametrize(
    "fields", [{"kind": "sing"}, {"kind": "dig", "times": "21"}, {"kind": "echo", "text": "a" * 81}]
)
def test_an_impossible_command_is_refused(visitor: Visitor, fields: dict[str, str]) -> None:
    with pytest.raises(urllib.error.HTTPError, match="400"):
        visitor.press("ask", **{"times": "1", **fields})


def test_what_was_said_is_escaped_on_the_page(demo: RunningDemo, visitor: Visitor) -> None:
    visitor.press("ask", kind="echo", text="<script>alert(1)</script>", times="1")
    page = visitor.get(demo.page)
    assert "&lt;script&gt;alert" in page
    assert "<script>alert" not in page


def test_a_demo_on_a_port_that_is_taken_says_so_and_starts_nothing(demo: RunningDemo) -> None:
    port = str(urllib.parse.urlsplit(demo.page).port)
    command = [sys.executable, str(MANAGE), "demo", "--port", port]
    told = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert told.returncode == 1
    assert told.stderr.strip() == f"CommandError: Port {port} is in use; choose another one, or 0 for any free one."


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_everything_and_leaves_nothing_behind(number: signal.Signals) -> None:
    with RunningDemo("--no-postgres") as demo:
        visitor = Visitor(demo)
        visitor.press("ask", kind="dig", text="", times="1")
        visitor.job_when(lambda job: job["running"])
        visitor.press("kill", what="process")
        assert demo.survivors(), "the check can't see any process of the demo"
        assert demo.stop(number) == 0
    assert not demo.survivors()
    assert not demo.directory.exists()
    assert "Traceback" not in demo.output


def test_a_demo_whose_terminal_is_gone_ends() -> None:
    with RunningDemo("--no-postgres") as demo:
        assert demo.process.stdout
        demo.process.stdout.close()
        assert demo.process.wait(PATIENCE) == 0
    assert not demo.survivors()
    assert not demo.directory.exists()


def test_a_demo_that_is_stopped_before_its_killed_worker_is_back_leaves_nothing_behind() -> None:
    with RunningDemo("--no-postgres") as demo:
        visitor = Visitor(demo)
        visitor.press("ask", kind="dig", text="", times="1")
        visitor.job_when(lambda job: job["running"])
        visitor.press("kill", what="worker")
        assert demo.stop() == 0
    assert not demo.survivors()
    assert not demo.directory.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels don't end the children of a killed process")
def test_no_process_outlives_a_demo_that_was_killed() -> None:
    with RunningDemo("--no-postgres") as demo:
        assert demo.stop(signal.SIGKILL) == -signal.SIGKILL
        poll(demo.survivors, lambda left: not left)
        shutil.rmtree(demo.directory)
