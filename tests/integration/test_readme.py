"""The start that the README promises, done to the letter in a new project with the built distribution."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import django
import pytest

from echomq_django.embedded import Valkey

ROOT = Path(__file__).parents[2]
START = (ROOT / "README.md").read_text().partition("\n## Start\n")[2].partition("\n## ")[0]

Manage = Callable[..., str]


def code(beginning: str) -> str:
    """Return the block of Python that begins with this comment."""
    [found] = [block for block in re.findall(r"```python\n(.*?)```", START, re.DOTALL) if block.startswith(beginning)]
    return str(found)


def commands() -> list[list[str]]:
    """Return the words behind `python manage.py` in the order of the README."""
    return [line.split() for line in re.findall(r"^\$ python manage\.py (.*)$", START, re.MULTILINE)]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but the built distribution."""
    built, folder = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(built), str(ROOT))
    [wheel] = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(folder)]
    run(*pip, str(wheel))
    return folder


@pytest.fixture
def manage(installed: Path, tmp_path: Path, valkey: Valkey) -> Manage:
    """Run `manage.py` of a new project in which the README's blocks stand where they say."""
    run(sys.executable, "-m", "django", "startproject", "shop", str(tmp_path))
    run(sys.executable, "manage.py", "startapp", "receipts", cwd=tmp_path)
    settings = code("# settings.py").replace(":6379/", f":{valkey.port}/")
    if django.VERSION < (6,):
        settings += 'INSTALLED_APPS += ["django_tasks"]\n'
    with (tmp_path / "shop" / "settings.py").open("a") as file:
        file.write(settings)
    (tmp_path / "receipts" / "tasks.py").write_text(code("# receipts/tasks.py"))
    return lambda *words: run(sys.executable, "manage.py", *words, cwd=tmp_path, path=installed)


def run(*command: str, cwd: Path | None = None, path: Path | None = None) -> str:
    """Run a program to its end and return what it printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "EMQ_", "PYTHONPATH"))}
    environment = {**kept, "PYTHONPATH": str(path)} if path else kept
    done = subprocess.run(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_whoever_follows_the_readme_sees_the_job_run(manage: Manage, installed: Path) -> None:
    where = "import echomq_django, echomq_django.bus.scripts as s; print(echomq_django.__file__, s.ROOT, sep='\\n')"
    package, scripts = manage("shell", "--no-imports", "-c", where).split()
    assert (Path(package).parent, Path(scripts)) == (installed / "echomq_django", installed / "echomq_django" / "lua")

    migrate, worker = commands()
    assert worker == ["emq_worker"]
    manage(*migrate)
    manage("shell", "-c", "from receipts.tasks import send_receipt\n" + code("# in a view"))
    printed = manage(*worker, "--burst")

    assert "receipt for order 7 of user 1" in printed.splitlines()


def test_the_project_of_the_readme_passes_the_checks(manage: Manage) -> None:
    manage("check", "--fail-level", "WARNING")
