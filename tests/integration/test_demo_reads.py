"""What a look at the demo's page costs, and that its sweeps leave nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from echomq_django.connection import get_bus
from echomq_django.embedded import Valkey
from example_project.bot import sweeps
from tests.running_demo import MANAGE

COSTS = """
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from echomq_django.connection import get_bus

server = get_bus().client()

def commands():
    return sum(found["calls"] for name, found in server.info("commandstats").items() if name != "cmdstat_info")

def cost(visitor):
    before = commands()
    with CaptureQueriesContext(connection) as queries:
        assert visitor.get("/state.json").status_code == 200
    return len(queries), commands() - before

visitor = Client(headers={"host": "localhost"})
visitor.post("/race/")
visitor.post("/ask/", {"kind": "echo", "times": 1})
visitor.get("/state.json")
few = cost(visitor)
for _ in range(10):
    visitor.post("/ask/", {"kind": "echo", "times": 20})
print("few", few, "many", cost(visitor))
"""


@pytest.fixture
def example(tmp_path: Path, valkey: Valkey) -> dict[str, str]:
    """The environment of an example project with a database and a server, and without a worker."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "EMQ_"))}
    where = {"DATABASE_URL": f"sqlite:///{tmp_path / 'demo.sqlite3'}", "BUS_URL": valkey.url}
    return {**kept, **where, "DEMO_DIRECTORY": str(tmp_path)}


def manage(example: dict[str, str], *words: str) -> str:
    command = [sys.executable, str(MANAGE), *words]
    done = subprocess.run(command, env=example, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_a_look_at_many_jobs_costs_as_many_commands_and_queries_as_one_at_few(example: dict[str, str]) -> None:
    manage(example, "migrate", "-v0")
    told = manage(example, "shell", "-v0", "-c", COSTS)
    few, many = told.split("few ")[1].strip().split(" many ")
    assert few == many


@pytest.mark.usefixtures("emq")
def test_a_thousand_leases_are_swept_once_with_the_script_and_no_key_stays() -> None:
    script, loop = sweeps.compare(get_bus())
    assert (script.reported, script.counted, script.wrong, script.condemned) == (1000, 1000, 0, 0)
    assert loop.reported > 1000
    assert get_bus().client().dbsize() == 0
