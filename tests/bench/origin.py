"""Where and when figures were measured, and with what."""

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import redis

from echomq_django.embedded import Valkey

ROOT = Path(__file__).parents[2]


def origin(server: Valkey, repeats: int) -> dict[str, str]:
    """Return what stands above a table of figures."""
    told: Any = redis.Redis.from_url(server.url).info("server")
    name = told.get("server_name", "redis")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _commit(),
        "machine": f"{_processor()}, {os.cpu_count()} cores, Linux {platform.release()}",
        "load": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
        "server": f"{name} {told.get('valkey_version', told['redis_version'])}, no append-only file",
        "repeats": str(repeats),
    }


def _commit() -> str:
    commit = _git("rev-parse", "--short", "HEAD")
    changed = commit and _git("status", "--porcelain", "--", ".", ":!docs/benchmarks")  # which other figures are in
    return f"{commit or 'unknown'}{'-dirty' if changed else ''}"


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.strip()


def _processor() -> str:
    found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()
