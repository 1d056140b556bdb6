"""`manage.py emq_worker`: claims jobs and runs them until it is told to stop."""

import difflib
import logging
import os
import pkgutil
import signal
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction
from importlib import import_module
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connections, router
from django.db.migrations.executor import MigrationExecutor
from django.utils.autoreload import get_child_arguments

from echomq_django import conf
from echomq_django.exceptions import BusRefused, InvalidSetting, UnsupportedServer
from echomq_django.models import DeadJob
from echomq_django.scheduler import Scheduler
from echomq_django.worker.child import MEMORY
from echomq_django.worker.config import WorkerConfig
from echomq_django.worker.reloader import Reloader
from echomq_django.worker.start import run_worker

_USAGE = 2
_LOGGER = logging.getLogger("echomq_django")


class Command(BaseCommand):
    """Exit codes: 0 stopped as asked, 1 gave up, 2 usage or configuration, 3 forced stop with jobs handed back."""

    help = "Claims jobs and runs them until it is told to stop (once: finish what runs; twice: hand it back now)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--backend", default="default", help="alias in TASKS (default: %(default)s)")
        parser.add_argument("--queues", type=_queues, help="a,b or with weights a:3,b:1 (default: all of the backend)")
        parser.add_argument("--strict", action="store_true", help="empty the queues strictly in the order given")
        parser.add_argument(
            "--processes", type=_natural, default=_cores(), help="children (default: the cores); 0: all in this process"
        )
        parser.add_argument("--threads", type=_positive, default=1, help="jobs at once per child (default: 1)")
        parser.add_argument("--burst", action="store_true", help="leave when nothing is pending, due or active")
        parser.add_argument("--grace", type=float, default=30.0, help="seconds for what runs at a stop (default: 30)")
        parser.add_argument("--max-jobs", type=_positive, help="replace a child after so many jobs")
        parser.add_argument("--max-memory", type=_positive, help="replace a child that has more MiB of memory")
        parser.add_argument("--autoreload", action=BooleanOptionalAction, help="start anew when code changes (DEBUG)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the worker; the exit code is the supervisor's."""
        _show_log_lines(options["verbosity"])
        try:
            config = _config(options)
            code = _reload() if options["autoreload"] else _run(config)
        except (InvalidSetting, BusRefused, UnsupportedServer) as error:
            raise CommandError(str(error), returncode=_USAGE) from error
        if code:
            sys.exit(code)


def _run(config: WorkerConfig) -> int:
    _require_tables()
    _import_tasks()
    _LOGGER.info("worker %d: queues %s; %s", os.getpid(), ", ".join(name for name, _ in config.queues), config)
    duties = [Scheduler().turn] if apps.is_installed("django_q") else []
    return run_worker(config, _interruptible_pause(), duties)


def _reload() -> int:
    if not settings.DEBUG:
        raise CommandError("--autoreload is for development: it needs DEBUG = True", returncode=_USAGE)
    _require_tables()
    return Reloader([*get_child_arguments(), "--no-autoreload"]).run()


def _config(options: dict[str, Any]) -> WorkerConfig:
    backend = conf.load(options["backend"])
    queues = options["queues"] or [(name, 1) for name in backend.queues]
    for name, _ in queues:
        if name not in backend.queues:
            near = difflib.get_close_matches(name, backend.queues, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise CommandError(
                f"queue {name!r} is not in QUEUES of TASKS[{backend.alias!r}] ({', '.join(backend.queues)}).{hint}",
                returncode=_USAGE,
            )
    _refuse_what_can_not_be(options)
    return WorkerConfig(
        alias=backend.alias,
        queues=tuple(queues),
        strict=options["strict"],
        processes=options["processes"],
        threads=options["threads"],
        burst=options["burst"],
        grace=options["grace"],
        max_jobs=options["max_jobs"],
        max_memory=options["max_memory"],
    )


def _refuse_what_can_not_be(options: dict[str, Any]) -> None:
    for name in ("max_jobs", "max_memory"):
        if options[name] and not options["processes"]:
            option = f"--{name.replace('_', '-')}"
            raise CommandError(f"{option} replaces children, and --processes 0 has none: drop one", returncode=_USAGE)
    if options["max_memory"] and not MEMORY.exists():
        raise CommandError(f"--max-memory reads {MEMORY}, which this system does not have", returncode=_USAGE)


def _require_tables() -> None:
    alias = router.db_for_write(DeadJob)
    try:
        executor = MigrationExecutor(connections[alias])
        targets = [node for node in executor.loader.graph.leaf_nodes() if node[0] == "echomq_django"]
        missing = executor.migration_plan(targets)
    except DatabaseError as error:
        _LOGGER.warning("database %r does not answer, dead jobs wait for it: %s", alias, error)
        return
    if missing:
        raise CommandError(
            f"database {alias!r} lacks tables. Run: manage.py migrate echomq_django --database {alias}",
            returncode=_USAGE,
        )


def _import_tasks() -> None:
    """Import each app's `tasks` before forking: what is loaded once is shared by all children."""
    for app in apps.get_app_configs():
        if any(module.name == "tasks" for module in pkgutil.iter_modules([app.path])):
            import_module(f"{app.name}.tasks")


def _show_log_lines(verbosity: int) -> None:
    if not _LOGGER.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        _LOGGER.addHandler(handler)
    if _LOGGER.level == logging.NOTSET:
        _LOGGER.setLevel({0: logging.ERROR, 1: logging.INFO}.get(verbosity, logging.DEBUG))


def _interruptible_pause() -> Any:
    """Return a sleep that TERM and INT end at once, for the time before the supervisor handles them."""

    def leave(*_: object) -> None:
        sys.exit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    return time.sleep


def _queues(text: str) -> list[tuple[str, int]]:
    queues = []
    for part in text.split(","):
        name, _, weight = part.partition(":")
        if not name or (weight and not (weight.isdecimal() and int(weight))):
            raise ArgumentTypeError(f"{part!r} is neither a queue nor queue:weight with a weight of 1 or more")
        queues.append((name, int(weight or 1)))
    return queues


def _natural(text: str, least: int = 0) -> int:
    if not text.isdecimal() or int(text) < least:
        raise ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
    return int(text)


def _positive(text: str) -> int:
    return _natural(text, 1)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
