"""What a job carries and the server never looks into: task, backend alias, headers, options and payload."""

import json
from dataclasses import dataclass, field
from typing import Any

_SEPARATOR = b"\0"
_DEFAULT_ALIAS = "default"


@dataclass(slots=True)
class Message:
    """The part of a job that only Python reads.

    `payload` is the JSON text `[args, kwargs]`, kept byte for byte. `headers` and `options` are JSON objects that stay
    empty, and cost nothing, until somebody needs them; so does the alias while it is the default one.
    """

    task: str
    payload: bytes
    alias: str = _DEFAULT_ALIAS
    headers: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def pack(self) -> bytes:
        """Return the body of a row. JSON escapes NUL and no path holds one, so NUL separates safely."""
        alias = "" if self.alias == _DEFAULT_ALIAS else self.alias
        parts = (self.task.encode(), alias.encode(), _dump(self.headers), _dump(self.options), self.payload)
        return _SEPARATOR.join(parts)

    @classmethod
    def unpack(cls, body: bytes) -> "Message":
        """Return the message in `body`; raises `ValueError` if it is none."""
        task, alias, headers, options, payload = body.split(_SEPARATOR, 4)
        return cls(task.decode(), payload, alias.decode() or _DEFAULT_ALIAS, _load(headers), _load(options))

    @staticmethod
    def task_in(body: bytes) -> str:
        """Return the task of the message in `body` alone."""
        return body.partition(_SEPARATOR)[0].decode(errors="backslashreplace")


def _dump(mapping: dict[str, Any]) -> bytes:
    return json.dumps(mapping, separators=(",", ":")).encode() if mapping else b""


def _load(text: bytes) -> dict[str, Any]:
    return json.loads(text) if text else {}
