"""A demo as a process of its own, and somebody who uses its page without a browser."""

import http.cookiejar
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

MANAGE = Path(__file__).resolve().parents[1] / "example_project" / "manage.py"
PATIENCE = 60.0
T = TypeVar("T")


class RunningDemo:
    """`manage.py demo` on a free port. `output` is what it has printed so far."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, str(MANAGE), "demo", "--port", "0", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment())
        self.output = ""
        self._seen = 0
        try:
            self.read_until("Ctrl-C")
        except BaseException:
            self.stop()
            raise
        self.page, self.dead_jobs, self.leases = (self.printed(name) for name in ("Page", "Dead jobs", "Leases"))
        self.directory = Path(self.printed("logs are in"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def printed(self, name: str) -> str:
        """Return the word that the demo printed behind `name`."""
        found = re.search(rf"{name} +(\S+)", self.output)
        assert found, self.output
        return found[1]

    def read_until(self, text: str) -> None:
        """Read what the demo prints until `text` is in what was not read before."""
        assert self.process.stdout
        deadline = time.monotonic() + PATIENCE
        while text not in self.output[self._seen :]:
            left = max(0, deadline - time.monotonic())
            assert select.select([self.process.stdout], [], [], left)[0], f"{text!r} is not said:\n{self.output}"
            said = os.read(self.process.stdout.fileno(), 4096)
            assert said, f"the demo ended without saying {text!r}:\n{self.output}"
            self.output += said.decode()
        self._seen = len(self.output)

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send a signal, wait for the end, and return the exit code."""
        self.process.send_signal(number)
        if self.process.stdout and not self.process.stdout.closed:
            rest, _ = self.process.communicate(timeout=PATIENCE)
            self.output += rest.decode()
        return self.process.returncode

    def survivors(self) -> list[str]:
        """Return the processes, other than the demo's own, that were started for this demo."""
        return [found for found in processes_of(self.directory) if found.split()[0] != str(self.process.pid)]


class Visitor:
    """Somebody who uses the page by its forms, and signs in to the admin."""

    def __init__(self, demo: RunningDemo) -> None:
        self.demo = demo
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies)

    def get(self, url: str, method: str = "GET") -> str:
        """Return the text of a page that answers 200."""
        with self._opener.open(urllib.request.Request(url, method=method), timeout=PATIENCE) as response:
            return str(response.read().decode())

    def press(self, action: str, **fields: str) -> str:
        """Send the form of the page that leads to `action`, and return the page that follows."""
        return self._submit(self.demo.page, f"{self.demo.page}{action}/", fields)

    def sign_in(self) -> str:
        """Sign in with the account that the demo printed, and return the list of dead jobs."""
        fields = {"username": self.demo.printed("User"), "password": self.demo.printed("Password")}
        login = f"{self.demo.page}admin/login/?next={urllib.parse.urlsplit(self.demo.dead_jobs).path}"
        return self._submit(login, login, fields)

    def state(self) -> dict[str, Any]:
        """Return what the page knows at this moment."""
        found: dict[str, Any] = json.loads(self.get(f"{self.demo.page}state.json"))
        return found

    def jobs(self) -> list[dict[str, Any]]:
        """Return what the page knows of the latest jobs, the youngest first."""
        found: list[dict[str, Any]] = self.state()["jobs"]
        return found

    def job_when(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the youngest job as soon as it meets `condition`."""
        return poll(self.jobs, lambda jobs: condition(jobs[0]))[0]

    def _submit(self, form: str, action: str, fields: dict[str, str]) -> str:
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', self.get(form))
        assert token
        body = urllib.parse.urlencode({"csrfmiddlewaretoken": token[1], **fields}).encode()
        with self._opener.open(urllib.request.Request(action, body), timeout=PATIENCE) as response:
            return str(response.read().decode())


def environment() -> dict[str, str]:
    """Return the environment without the settings of the suite, which are not the demo's."""
    return {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}


def poll(read: Callable[[], T], condition: Callable[[T], bool]) -> T:
    """Return what `read` returns as soon as it meets `condition`."""
    deadline = time.monotonic() + PATIENCE
    while not condition(found := read()):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    return found


def processes_of(directory: Path) -> list[str]:
    """Return the running processes, pid and command, that have to do with `directory`."""
    return [
        f"{path.name} {_read(path / 'cmdline')}" for path in Path("/proc").glob("[0-9]*") if _knows(path, directory)
    ]


def _knows(process: Path, directory: Path) -> bool:
    try:
        traces = [os.readlink(process / "cwd"), _read(process / "cmdline"), _read(process / "environ")]
    except OSError:
        return False
    return any(str(directory) in trace for trace in traces)


def _read(path: Path) -> str:
    return path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
