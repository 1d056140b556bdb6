"""The start that the README promises, done to the letter in a new project with the built distribution."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from echomq_django.embedded import Valkey
from tests.new_project import ROOT, START, code, make_project, run

Manage = Callable[..., str]


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
    make_project(tmp_path, valkey.port)
    return lambda *words: run(sys.executable, "manage.py", *words, cwd=tmp_path, path=installed)


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
