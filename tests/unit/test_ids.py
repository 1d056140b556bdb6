"""JOB ids sort by time, remember their queue and never meet, whoever mints them."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echomq_django.bus import ids
from echomq_django.exceptions import InvalidJobId


def test_an_id_fits_where_django_keeps_it() -> None:
    job_id = ids.mint("emails")

    assert len(job_id) == 29
    assert job_id.startswith("JOB")
    assert ids.check(job_id) == job_id


def test_ids_of_one_process_grow() -> None:
    minted = [ids.mint(f"q{n % 3}") for n in range(5_000)]

    assert minted == sorted(set(minted))


def test_ids_keep_growing_when_the_clock_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    first = ids.mint("default")
    monkeypatch.setattr("time.time_ns", lambda: 0)

    assert ids.mint("default") > first


def test_ids_of_threads_differ() -> None:
    with ThreadPoolExecutor(8) as pool:
        minted = [one for part in pool.map(lambda _: [ids.mint("q") for _ in range(500)], range(8)) for one in part]

    assert len(set(minted)) == 4_000


def test_ids_of_forks_differ_and_a_held_lock_does_not_hang_them() -> None:
    script = """
import json, os, sys, threading
from echomq_django.bus import ids

ids.mint("q")
stop = threading.Event()
threading.Thread(target=lambda: [ids.mint("q") for _ in iter(stop.is_set, True)], daemon=True).start()
pipes = []
for _ in range(8):
    readable, writable = os.pipe()
    if os.fork() == 0:
        os.write(writable, json.dumps([ids.mint("q") for _ in range(100)]).encode())
        os._exit(0)
    pipes.append((readable, writable))
stop.set()
minted = [ids.mint("q") for _ in range(100)]
for readable, writable in pipes:
    os.close(writable)
    minted += json.loads(open(readable, "rb").read())
print(json.dumps(minted))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, check=True, timeout=60)

    minted = json.loads(done.stdout)
    assert len(set(minted)) == len(minted) == 900


@given(st.text(max_size=64))
def test_an_id_remembers_its_queue(queue: str) -> None:
    assert ids.queue_bits_of(ids.mint(queue)) == ids.queue_bits(queue) < 1 << 20


def test_derived_ids_are_the_same_each_time_and_remember_their_queue() -> None:
    one = ids.derive("q", "nightly", "2026-01-01")

    assert ids.check(one) == ids.derive("q", "nightly", "2026-01-01")
    assert ids.queue_bits_of(one) == ids.queue_bits("q")
    assert len({one, ids.derive("q", "nightly", "2026-01-02"), ids.derive("r", "nightly", "2026-01-01")}) == 3


@pytest.mark.parametrize(
    "job_id",
    [
        "",
        "JOB",
        "job" + "0" * 26,
        "JOB" + "0" * 25,
        "JOB" + "0" * 27,
        "JOB" + "W" * 26,
        "JOB" + "0" * 26 + "\n",
        5,
        None,
        b"JOB",
    ],
    ids=repr,
)
def test_no_key_is_built_from_what_is_no_job_id(job_id: object) -> None:
    with pytest.raises(InvalidJobId, match="is not a JOB id"):
        ids.check(job_id)  # type: ignore[arg-type]
