"""The page of replayed failures names tests that are there, and tests name reports that are on the page."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "replayed-failures.md").read_text()
ROWS = re.findall(r"^\| (C\d\d) \| \[(\S+)\]\((\S+)\) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
NAMED = re.findall(r"`([^\s`]+\.py)::(\w+)`", PAGE)
CITED = re.compile(r"(C\d\d), (\S+#\d+)\.")


@cache
def docstrings_in(path: str) -> dict[str, str]:
    """Return the docstrings of the tests in a file by their names."""
    found = ast.parse((ROOT / path).read_text()).body
    return {one.name: ast.get_docstring(one) or "" for one in found if isinstance(one, ast.FunctionDef)}


def citing() -> list[tuple[str, str, str, str]]:
    """Return (path, test, case, report) for each test whose docstring names a report."""
    paths = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests").rglob("test_*.py"))]
    tests = [(path, name, text) for path in paths for name, text in docstrings_in(path).items()]
    return [(path, name, *cited) for path, name, text in tests for cited in CITED.findall(text)]


def test_each_row_has_its_own_case_and_links_to_its_report() -> None:
    assert len(ROWS) == PAGE.count("\n| C")
    assert len({case for case, *_ in ROWS}) == len(ROWS)
    for _, report, address, *_ in ROWS:
        repository, number = report.split("#")
        assert re.fullmatch(rf"https://github\.com/{repository}/(issues|pull)/{number}", address)


@pytest.mark.parametrize(("path", "name"), NAMED, ids=[name for _, name in NAMED])
def test_the_named_test_is_there(path: str, name: str) -> None:
    assert name in docstrings_in(path)


def test_each_test_that_names_a_report_stands_in_its_row() -> None:
    rows = {(case, report): tests for case, report, _, _, tests in ROWS}
    missing = [one for *one, case, report in citing() if "`{}::{}`".format(*one) not in rows.get((case, report), "")]

    assert not missing
