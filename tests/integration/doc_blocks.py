"""The blocks of code in the documentation: where they stand, of what kind they are, and what they call.

All Python of a page runs from top to bottom in one namespace. The first line of a block may say where it stands:
`# settings.py` changes the settings of the page, `# app/tasks.py` makes a module of this path that others can import.

What stands in comments of HTML is for these tests: one that begins with `python` holds what the page takes for granted,
such as the reader's own functions, and runs in its place; it may call `run_jobs()` to let a worker's work pass.
`not run: <why>` keeps the block behind it from running. `run by <file>` leaves the Python of the page to another test.
"""

import ast
import inspect
import json
import re
import shlex
from asyncio import run
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "lua" / "README.md", *(ROOT / "docs").rglob("*.md")])

_BLOCK = re.compile(
    r"^(?: *<!-- not run: (?P<why>[^\n]+) -->\n+)?(?P<indent> *)```(?P<language>\w+)\n(?P<code>.*?)^(?P=indent)```$"
    r"|^<!-- python\n(?P<setup>.*?)^-->$",
    re.DOTALL | re.MULTILINE,
)
_STANDS_IN = re.compile(r"# ([\w/]+)\.py\b")
_RUN_BY = re.compile(r"^<!-- run by (\S+) -->$", re.MULTILINE)
_CALL = re.compile(r"manage\.py[\s,\"]+(\w+)(.*)")


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of code on a page, where it stands in the reader's project, and why it is not run, if it is not."""

    page: Path
    line: int
    language: str
    code: str
    why: str = ""

    @property
    def module(self) -> str:
        """The module that the block is, or nothing."""
        named = _STANDS_IN.match(self.code)
        return named[1].replace("/", ".") if named else ""

    def run(self, namespace: dict[str, Any]) -> None:
        """Run the block; a traceback names the page and its line."""
        code = "\n" * (self.line - 1) + self.code
        compiled = compile(code, str(self.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if compiled.co_flags & inspect.CO_COROUTINE:
            run(eval(compiled, namespace))
        else:
            exec(compiled, namespace)

    def commands(self) -> Iterator[list[str]]:
        """Return the words of each call of `manage.py`, also of those in unit files and containers."""
        for line in self.code.replace("\\\n", " ").splitlines():
            for name, words in _CALL.findall(line):
                yield [name, *(json.loads(f'["{words}')[1:] if words[:1] == '"' else shlex.split(words, comments=True))]


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in their order."""
    text, found = page.read_text(), []
    for match in _BLOCK.finditer(text):
        part = "code" if match["setup"] is None else "setup"
        line = text.count("\n", 0, match.start(part)) + 1
        found.append(Block(page, line, match["language"] or "python", dedent(match[part]), match["why"] or ""))
    return found


def own_test(page: Path) -> str:
    """Return the file that runs the Python of the page, or nothing."""
    named = _RUN_BY.search(page.read_text())
    return named[1] if named else ""


EVERYWHERE = [block for page in PAGES for block in blocks(page)]
