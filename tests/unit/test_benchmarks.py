"""The page of benchmarks says what was measured, and every queue is measured in the same way."""

import ast
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.bench import chart, page
from tests.bench.peers.catalog import OWN, PEERS, Peer

ROOT = Path(__file__).parents[2]
QUEUES = ROOT / "tests" / "bench" / "peers" / "queues"
ORIGIN = {
    "date": "2026-01-02",
    "commit": "abc1234",
    "machine": "Some CPU, 2 cores, Linux 6",
    "load": "0.1",
    "python": "3.12.1",
    "server": "valkey 9.1.2, no append-only file",
    "repeats": "3",
}


def measured(name: str, rates: list[float], **enqueue: list[float]) -> dict[str, Any]:
    """Return the results of a queue with one setting."""
    figures = {"jobs_per_s": rates, "worker_us": [40.0], "server_us": [20.04], "p50_ms": [0.96], "p99_ms": [1234.5]}
    setting = {
        "name": "one child",
        "command": "work --hard",
        "options": {"speed": 9},
        "jobs": 30000,
        "figures": figures,
    }
    peer = {"name": name, "own": name == OWN.name, "versions": {name: "1.2"}, "guarantee": "Once.", "logging": "off"}
    return peer | {"enqueue": {"one_per_s": [8000.0], **enqueue}, "settings": [setting | {"figures": figures}]}


RESULTS: dict[str, Any] = {
    "origin": ORIGIN,
    "peers": [
        measured("slow", [90.25, 80.0, 99.0]),
        measured(OWN.name, [25_000.0, 24_000.0, 27_000.0], bulk_per_s=[41_000.0]),
    ],
    "not_run": {"gone": "it could not be installed"},
}


def test_a_table_shows_medians_and_ranges_with_the_fastest_first() -> None:
    rows = re.findall(r"^\| .* 1,23\d \|$", page.peers_section(RESULTS), re.MULTILINE)

    assert rows == [
        f"| **{OWN.name}**, one child | 25,000 | 24,000 to 27,000 | 40.0 | 20.0 | 0.96 | 1,234 |",
        "| slow, one child | 90.2 | 80.0 to 99.0 | 40.0 | 20.0 | 0.96 | 1,234 |",
    ]


def test_a_queue_without_a_call_for_many_jobs_has_dashes_there() -> None:
    text = page.peers_section(RESULTS)

    assert "| slow | 8,000 | 8,000 to 8,000 | - | - |" in text
    assert f"| **{OWN.name}** | 8,000 | 8,000 to 8,000 | 41,000 | 41,000 to 41,000 |" in text


def test_a_queue_that_was_not_run_is_named_with_the_reason() -> None:
    assert "NOT RUN: **gone**: it could not be installed." in page.peers_section(RESULTS)
    assert "NOT RUN: **gone**" in page.peers_section(RESULTS | {"peers": []})


def test_figures_stand_beside_machine_date_commit_versions_settings_and_logging() -> None:
    text = page.peers_section(RESULTS)

    assert "Measured on 2026-01-02 at commit `abc1234`: Some CPU, 2 cores, Linux 6, load 0.1 at the start" in text
    assert "| slow | slow 1.2 | off |" in text
    assert "| slow, one child | `work --hard` | `speed=9` | 30,000 |" in text


def test_own_figures_are_a_table_too() -> None:
    figures = [{"about": "One child.", "values": {"jobs/s": [3.0, 1.0, 2.0]}}]

    text = page.own_section({"origin": ORIGIN, "figures": figures, "logging": {"version": 1}})

    assert "| One child. | jobs/s | 2.00 | 1.00 to 3.00 |" in text
    assert "With `LOGGING = {'version': 1}`." in text


def test_a_page_without_results_says_how_to_get_them() -> None:
    assert "`make bench-peers`" in page.page(None, None)
    assert page.page(None, None).count("Not measured yet") == 2


def test_the_page_in_the_docs_is_that_of_the_results_beside_it() -> None:
    assert (page.FOLDER / "index.md").read_text() == page.page(page.load("peers"), page.load("own"))


def test_bars_start_at_zero_and_are_as_long_as_their_medians() -> None:
    drawing = ElementTree.fromstring(chart.svg("Rates", page.bars(RESULTS)))
    own, slow = drawing.findall("{*}rect")

    assert own.get("x") == slow.get("x") == str(chart.LEFT)
    assert float(own.get("width")) == pytest.approx((chart.WIDTH - chart.LEFT - chart.RIGHT) * 25 / 27, abs=0.1)
    assert float(slow.get("width")) == pytest.approx(float(own.get("width")) * 90.25 / 25_000, abs=0.1)
    assert (own.get("fill"), slow.get("fill")) == (chart.OWN, chart.OTHER)


def test_a_chart_says_in_words_what_it_shows() -> None:
    drawing = ElementTree.fromstring(chart.svg("A < B", page.bars(RESULTS)))

    assert drawing.findtext("{*}title") == "A < B"
    assert drawing.findtext("{*}desc") == f"{OWN.name}, one child: 25,000; slow, one child: 90."
    assert f"{OWN.name}, one child: 25,000" in page.peers_section(RESULTS)


@pytest.mark.parametrize("peer", [peer for peer in PEERS if not peer.node], ids=lambda peer: peer.module)
def test_each_queue_of_python_has_the_same_names(peer: Peer) -> None:
    assert top_level_names(QUEUES / f"{peer.module}.py") >= {
        "nothing",
        "report",
        "enqueue",
        "enqueue_bulk",
        "unfinished",
    }


@pytest.mark.parametrize("peer", [peer for peer in PEERS if peer.node], ids=lambda peer: peer.module)
def test_each_queue_of_node_has_the_same_names(peer: Peer) -> None:
    code = (QUEUES / f"{peer.module}.cjs").read_text()

    assert "module.exports = { enqueue, enqueueBulk, unfinished };" in code
    assert re.findall(r"^  (\w+): async", code, re.MULTILINE) == ["nothing", "report"]


def test_every_queue_is_in_the_catalog_and_each_has_its_default_setting() -> None:
    modules = {path.stem for path in QUEUES.iterdir() if path.suffix in {".py", ".cjs"}}

    assert modules - {"__init__", "django_q2_settings"} == {peer.module for peer in PEERS}
    assert all(any(one.name.startswith("default") for one in peer.settings) for peer in PEERS)


def top_level_names(path: Path) -> set[str]:
    """Return what a module defines, read without what it imports: that is installed elsewhere."""
    found = set()
    for one in ast.parse(path.read_text()).body:
        match one:
            case ast.FunctionDef():
                found.add(one.name)
            case ast.Assign():
                targets = [name for target in one.targets for name in ast.walk(target)]
                found |= {name.id for name in targets if isinstance(name, ast.Name)}
            case ast.ImportFrom():
                found |= {alias.asname for alias in one.names if alias.asname}
    return found
