"""Processes whose clock is wrong, by libfaketime; what counts seconds without a date goes on as always."""

import platform
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

needs_wrong_clocks = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="the package libfaketime is for Linux on x86-64"
)


def wrong_by(seconds: float) -> dict[str, str]:
    """Return the environment of a process whose clock is ahead by so many seconds."""
    return {**_preloaded(), "FAKETIME": f"{seconds:+}"}


def wrong_as_said_in(file: Path) -> dict[str, str]:
    """Return the environment of a process whose clock follows the number of seconds in a file at any time."""
    return {**_preloaded(), "FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_NO_CACHE": "1"}


def _preloaded() -> dict[str, str]:
    spec = find_spec("libfaketime")
    assert spec, "libfaketime is not installed: pip install 'echomq-django[test]'"
    library = Path(spec.origin).parent / "vendor" / "libfaketime" / "src" / "libfaketime.so.1"
    return {"LD_PRELOAD": str(library), "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
