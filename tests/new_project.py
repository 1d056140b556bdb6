"""A new project in which the blocks of the README stand where they say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import django

ROOT = Path(__file__).parents[1]
START = (ROOT / "README.md").read_text().partition("\n## Start\n")[2].partition("\n## ")[0]


def code(beginning: str) -> str:
    """Return the block of Python that begins with this comment."""
    [found] = [block for block in re.findall(r"```python\n(.*?)```", START, re.DOTALL) if block.startswith(beginning)]
    return str(found)


def make_project(folder: Path, bus_port: int) -> None:
    """Make the project `shop` with the app `receipts` in `folder`, its queue on a server at `bus_port`."""
    run(sys.executable, "-m", "django", "startproject", "shop", str(folder))
    run(sys.executable, "manage.py", "startapp", "receipts", cwd=folder)
    settings = code("# settings.py").replace(":6379/", f":{bus_port}/")
    if django.VERSION < (6,):
        settings += 'INSTALLED_APPS += ["django_tasks"]\n'
    with (folder / "shop" / "settings.py").open("a") as file:
        file.write(settings)
    (folder / "receipts" / "tasks.py").write_text(code("# receipts/tasks.py"))


def run(*command: str, cwd: Path | None = None, path: Path | None = None) -> str:
    """Run a program to its end and return what it printed."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment(path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def environment(path: Path | None = None) -> dict[str, str]:
    """Return the environment without what the suite has put there, and with `path` as the only place of packages."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "EMQ_", "PYTHONPATH"))}
    return {**kept, "PYTHONPATH": str(path)} if path else kept
