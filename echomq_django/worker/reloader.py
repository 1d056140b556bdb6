"""Starts a worker anew when its code changes, for development."""

import logging
import signal
import subprocess
import sysconfig
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.apps import apps
from django.utils.autoreload import StatReloader

from echomq_django.worker.processes import STOP_SIGNALS

logger = logging.getLogger("echomq_django.worker")

_TICK_S = 1.0


class Reloader:
    """Runs `command`, a worker, in a process of its own and replaces it when a file has changed.

    Django's own reloader knows the files of all imported modules; here those of all apps of the project are added.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._worker: subprocess.Popen[bytes] | None = None
        self._stopping = False
        self._watch = StatReloader()
        for directory in _directories_of_apps():
            self._watch.watch_dir(directory, "**/*.py")

    def run(self) -> int:
        """Serve until stopped, or until the worker has nothing left to do; returns the exit code of the worker."""
        for number in STOP_SIGNALS:
            signal.signal(number, self._stop)
        while True:
            seen = self._files()
            self._worker = subprocess.Popen(self._command)
            code = self._code_unless_changed(self._worker, seen)
            if code is None:
                self._worker.send_signal(signal.SIGHUP)
                code = self._worker.wait()
            elif code and not self._stopping:
                logger.error("the worker ended (exit code %d): waiting until a file changes", code)
                self._wait_for_change(seen)
            else:
                self._stopping = True
            if self._stopping:
                return max(0, code)  # below 0: it had not begun to listen to signals

    def _code_unless_changed(self, worker: "subprocess.Popen[bytes]", seen: dict[Path, float]) -> int | None:
        while self._stopping or not self._changed(seen):
            with suppress(subprocess.TimeoutExpired):
                return worker.wait(_TICK_S)
        return None

    def _wait_for_change(self, seen: dict[Path, float]) -> None:
        while not self._stopping and not self._changed(seen):
            time.sleep(_TICK_S)

    def _changed(self, seen: dict[Path, float]) -> bool:
        changed = dict(set(self._files().items()) ^ set(seen.items()))
        if changed:
            logger.info("%s changed: the worker starts anew", ", ".join(sorted(map(str, changed))))
        return bool(changed)

    def _files(self) -> dict[Path, float]:
        return dict(self._watch.snapshot_files())

    def _stop(self, *_: Any) -> None:
        # The worker may hear the same signals itself, so one may not count twice: HUP does not count, these two do.
        for number in (signal.SIGINT, signal.SIGTERM) if self._stopping else (signal.SIGHUP,):
            if self._worker is not None:
                self._worker.send_signal(number)
        self._stopping = True


def _directories_of_apps() -> list[Path]:
    installed = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")]
    paths = [Path(config.path) for config in apps.get_app_configs()]
    return [path for path in paths if not any(path.is_relative_to(one) for one in installed)]
