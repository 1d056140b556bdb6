"""Loads `lua/<noun>/<verb>.lua` and runs it by its hash."""

import re
from collections.abc import Sequence
from functools import cache
from hashlib import sha1
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
# The wheel carries the folder inside the package; in a checkout it lies beside it.
ROOT = next(path for path in (_PACKAGE / "lua", _PACKAGE.parent / "lua") if path.is_dir())
_INCLUDE = re.compile(r"^--- @include (\w+)\n", re.MULTILINE)


class Script:
    """One script of the server: its name, its text with the fragments pasted in, and the hash that the server knows.

    With `allow_oom` False the server refuses it at its memory limit, whatever the file says.
    """

    __slots__ = ("name", "sha", "text")

    def __init__(self, name: str, *, allow_oom: bool = True) -> None:
        self.name = name
        self.text = expand((ROOT / f"{name}.lua").read_text())
        if not allow_oom:
            self.text = self.text.replace("#!lua flags=allow-oom", "#!lua", 1)
        self.sha = sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    def __repr__(self) -> str:
        return f"<Script {self.name}>"

    def command(self, keys: Sequence[str], args: Sequence[object]) -> tuple[object, ...]:
        """Return the EVALSHA command that runs this script, ready to be sent."""
        return ("EVALSHA", self.sha, len(keys), *keys, *args)


def expand(text: str) -> str:
    """Return `text` with each `--- @include name` replaced by `lua/lib/name.lua`."""
    return _INCLUDE.sub(lambda match: fragment(match[1]), text)


@cache
def fragment(name: str) -> str:
    """Return the text of a fragment, without the comment above it."""
    lines = (ROOT / "lib" / f"{name}.lua").read_text().splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if not line.startswith("--"))
    return "".join(lines[start:])
