"""Write `docs/benchmarks/index.md` and its chart from the results beside it.

Both benchmarks do so when they are through. `python -m tests.bench.page` does it again when only the words of `page.md`
have changed.
"""

import json
from pathlib import Path
from statistics import median
from string import Template
from typing import Any, Final

from tests.bench import chart
from tests.bench.origin import ROOT

FOLDER: Final = ROOT / "docs" / "benchmarks"
TEMPLATE: Final = Path(__file__).with_name("page.md")
CHART: Final = "drain.svg"
TITLE: Final = "Jobs per second that one worker drains (no-op handler)"

Results = dict[str, Any]


def save(name: str, results: Results) -> None:
    """Keep the results of one benchmark and write the page anew."""
    (FOLDER / f"results-{name}.json").write_text(json.dumps(results, indent=2) + "\n")
    write()


def write() -> None:
    """Write the page and, if another queue was measured, the chart."""
    peers = load("peers")
    (FOLDER / "index.md").write_text(page(peers, load("own")))
    if peers and peers["peers"]:
        (FOLDER / CHART).write_text(chart.svg(TITLE, bars(peers)))


def load(name: str) -> Results | None:
    """Return the results of one benchmark, or None where it was not run."""
    path = FOLDER / f"results-{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def page(peers: Results | None, own: Results | None) -> str:
    """Return the page; what was not measured is said to be so."""
    return Template(TEMPLATE.read_text()).substitute(
        peers=peers_section(peers) if peers else missing("make bench-peers"),
        own=own_section(own) if own else missing("make bench"),
    )


def missing(command: str) -> str:
    """Return what stands in place of a section."""
    return f"Not measured yet: `{command}` does it and writes this section."


def own_section(results: Results) -> str:
    """Return this queue's own figures as Markdown."""
    rows = [
        [one["about"], name, *number(values)] for one in results["figures"] for name, values in one["values"].items()
    ]
    logging = f"With `LOGGING = {results['logging']}`."
    return paragraphs(origin(results), logging, table("what | figure | median | range", rows))


def peers_section(results: Results) -> str:
    """Return the comparison as Markdown: chart, tables, what each queue promises and how it was set."""
    peers = results["peers"]
    not_run = [f"NOT RUN: **{name}**: {reason}." for name, reason in results["not_run"].items()]
    if not peers:
        return paragraphs(origin(results), *not_run)
    return paragraphs(
        origin(results),
        f"![{TITLE}. {chart.described(bars(results))}]({CHART})",
        *not_run,
        "### Work",
        table(
            "queue, setting | jobs/s | range | worker CPU, µs a job | server CPU, µs a job | delay p50, ms | p99, ms",
            [work_row(peer, setting) for peer, setting in by_speed(results)],
        ),
        "### Enqueue",
        table("queue | one by one, jobs/s | range | in bulk, jobs/s | range", [enqueue_row(peer) for peer in peers]),
        "### What each promises",
        table("queue | a job that was enqueued runs", [[bold(peer), peer["guarantee"]] for peer in peers]),
        "### Versions and settings",
        table("queue | versions | logging", [version_row(peer) for peer in peers]),
        table(
            "queue, setting | command | options | jobs drained",
            [setting_row(peer, setting) for peer, setting in by_speed(results)],
        ),
    )


def origin(results: Results) -> str:
    """Return the sentence that says where figures come from."""
    told = results["origin"]
    return (
        f"Measured on {told['date']} at commit `{told['commit']}`: {told['machine']}, load {told['load']} at the "
        f"start; Python {told['python']}, {told['server']}; medians of {told['repeats']}."
    )


def by_speed(results: Results) -> list[tuple[Results, Results]]:
    """Return each setting of each queue, the fastest first."""
    found = [(peer, setting) for peer in results["peers"] for setting in peer["settings"]]
    return sorted(found, key=lambda one: -median(one[1]["figures"]["jobs_per_s"]))


def bars(results: Results) -> list[chart.Bar]:
    """Return one bar for each setting of each queue, the fastest first."""
    return [
        chart.Bar(f"{peer['name']}, {setting['name']}", *spread(setting["figures"]["jobs_per_s"]), own=peer["own"])
        for peer, setting in by_speed(results)
    ]


def work_row(peer: Results, setting: Results) -> list[str]:
    """Return what a worker in one setting did."""
    figures = setting["figures"]
    rest = [number(figures[name])[0] for name in ("worker_us", "server_us", "p50_ms", "p99_ms")]
    return [f"{bold(peer)}, {setting['name']}", *number(figures["jobs_per_s"]), *rest]


def enqueue_row(peer: Results) -> list[str]:
    """Return how fast a queue takes jobs."""
    rates = peer["enqueue"]
    return [bold(peer), *number(rates["one_per_s"]), *(number(rates["bulk_per_s"]) if "bulk_per_s" in rates else "--")]


def version_row(peer: Results) -> list[str]:
    """Return what was installed for a queue, and what it logs."""
    return [bold(peer), ", ".join(f"{name} {found}" for name, found in peer["versions"].items()), peer["logging"]]


def setting_row(peer: Results, setting: Results) -> list[str]:
    """Return how a worker was started."""
    options = ", ".join(f"`{name}={value}`" for name, value in setting["options"].items())
    return [f"{bold(peer)}, {setting['name']}", f"`{setting['command']}`", options or "-", f"{setting['jobs']:,}"]


def bold(peer: Results) -> str:
    """Return a queue's name, this one's in bold."""
    return f"**{peer['name']}**" if peer["own"] else str(peer["name"])


def spread(values: list[float]) -> tuple[float, float, float]:
    """Return the median, the lowest and the highest."""
    return median(values), min(values), max(values)


def number(values: list[float]) -> list[str]:
    """Return the median and the range, with as many digits as mean something."""
    digits = 0 if median(values) >= 100 else 1 if median(values) >= 10 else 2
    middle, low, high = (f"{value:,.{digits}f}" for value in spread(values))
    return [middle, f"{low} to {high}"]


def table(head: str, rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    ruler = "|".join(["---"] * (head.count("|") + 1))
    return "\n".join([f"| {head} |", f"|{ruler}|", *(f"| {' | '.join(row)} |" for row in rows)])


def paragraphs(*parts: str) -> str:
    """Return parts with an empty line between them."""
    return "\n\n".join(parts)


if __name__ == "__main__":
    write()
