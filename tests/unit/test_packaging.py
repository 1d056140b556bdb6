"""The distribution is built from a source archive, installed, and has all that the checkout has."""

import os
import subprocess
import sys
from email import message_from_string
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]

ONE_CLAIM = """
import sys
import redis
from echomq_django.bus import ids, jobs, scripts
from echomq_django.bus.queue import Queue

with redis.Redis.from_url(sys.argv[1]) as client:
    queue = Queue(client, sys.argv[2], "default")
    job = jobs.NewJob(ids.mint("default"), b"")
    assert jobs.enqueue(queue, [job]) == [True]
    assert [row.job_id for row in jobs.claim(queue, "holder", jobs.new_nonce(), 1)] == [job.job_id]
print(scripts.ROOT)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture
def metadata(wheel):
    with ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_string(archive.read(name).decode())


def files_in(archive):
    with ZipFile(archive) as opened:
        return set(opened.namelist())


def files_of_the_checkout():
    for folder, name in (("echomq_django", "echomq_django"), ("lua", "echomq_django/lua")):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                yield f"{name}/{path.relative_to(ROOT / folder)}"


def test_the_wheel_has_every_file_of_the_package_and_every_script(wheel):
    packed = {name for name in files_in(wheel) if ".dist-info/" not in name}

    assert packed == set(files_of_the_checkout())
    assert {"echomq_django/lua/jobs/claim.lua", "echomq_django/py.typed"} <= packed


def test_the_wheel_names_its_licence_and_carries_it(wheel, metadata):
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert any(name.endswith("licenses/LICENSE") for name in files_in(wheel))


def test_no_dependency_has_an_upper_bound(metadata):
    specifiers = [Requirement(line).specifier for line in metadata.get_all("Requires-Dist")]

    assert {bound.operator for specifier in specifiers for bound in specifier} == {">="}


def test_the_installed_wheel_claims_a_job_with_its_own_scripts(wheel, tmp_path, valkey, prefix):
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(tmp_path)]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)

    claim = [sys.executable, "-c", ONE_CLAIM, valkey.url, prefix]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(claim, check=True, capture_output=True, text=True, cwd=tmp_path, env=environment)

    assert Path(done.stdout.strip()) == tmp_path / "echomq_django" / "lua"
