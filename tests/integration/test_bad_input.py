"""Whatever a project gets wrong raises a typed error that names the culprit and the next step."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.core.cache import caches
from pytest_django import Settings

from echomq_django import task
from echomq_django.connection import check_server, get_bus
from echomq_django.embedded import Valkey
from echomq_django.exceptions import (
    BusRefused,
    BusUnavailable,
    CacheUseRefused,
    EchoMQError,
    InvalidArguments,
    InvalidName,
    InvalidOption,
    InvalidSetting,
    PayloadTooLarge,
    UnknownQueue,
    UnresolvableTask,
    UnsupportedServer,
)
from echomq_django.tasks import resolve
from tests.integration.wire import Impostor


@task
def send(*args: Any, **kwargs: Any) -> None: ...


class Project:
    """A project whose settings a mistake can spoil."""

    def __init__(self, settings: Settings, valkey: Valkey) -> None:
        self.settings, self.valkey = settings, valkey

    def option(self, **options: Any) -> None:
        """Start with other `OPTIONS`."""
        entry = self.settings.TASKS["default"]
        self.settings.TASKS = {"default": {**entry, "OPTIONS": {**entry["OPTIONS"], **options}}}
        apps.get_app_config("echomq_django").ready()

    def queues(self, *names: str) -> None:
        """Start with other `QUEUES`."""
        self.settings.TASKS = {"default": {**self.settings.TASKS["default"], "QUEUES": list(names)}}
        apps.get_app_config("echomq_django").ready()

    def server(self, url: str) -> None:
        """Use another server."""
        self.settings.CACHES = {**self.settings.CACHES, "emq": {**self.settings.CACHES["emq"], "LOCATION": url}}

    def enqueue_without_a_server(self) -> None:
        """Enqueue while nobody listens at the server's port."""
        self.server("redis://127.0.0.1:1/0")
        send.enqueue()

    def enqueue_with_a_wrong_password(self) -> None:
        """Enqueue as a user whom the server does not know."""
        self.server(self.valkey.url.replace("//", "//nobody:s3cret@"))
        send.enqueue()

    def start_with_an_old_server(self) -> None:
        """Ask a server for its version that says it is Redis 6."""
        with Impostor(redis_version="6.2.14") as old:
            self.server(old.url)
            check_server(get_bus().client())


@pytest.fixture
def project(emq: Settings, valkey: Valkey) -> Project:
    """A project without a mistake."""
    return Project(emq, valkey)


MISTAKES: dict[str, tuple[Callable[[Project], object], type[EchoMQError], str]] = {
    "unknown setting": (
        lambda project: project.option(max_stalls=3),
        InvalidSetting,
        "TASKS['default']['OPTIONS'] has an unknown key 'max_stalls'; did you mean 'max_stalled'?",
    ),
    "lease of zero": (
        lambda project: project.option(lease=0),
        InvalidSetting,
        "TASKS['default']['OPTIONS']['lease'] = 0: must be a number of seconds above 0",
    ),
    "negative lease of a queue": (
        lambda project: project.option(queues={"emails": {"lease": -5}}),
        InvalidSetting,
        "['queues']['emails']['lease'] = -5: must be a number of seconds above 0",
    ),
    "durability of a later release": (
        lambda project: project.option(durability="floor"),
        InvalidSetting,
        "['durability'] = 'floor': comes later: use 'memory'",
    ),
    "cache alias that is not there": (
        lambda project: project.option(cache="emg"),
        InvalidSetting,
        "['cache'] = 'emg' is no alias of CACHES; did you mean 'emq'?",
    ),
    "queue name that could meet another key": (
        lambda project: project.queues("default", "emails}:active"),
        InvalidSetting,
        "queue name 'emails}:active': use 1 to 64 of the characters A-Z a-z 0-9 _ . -",
    ),
    "unknown queue": (
        lambda project: send.using(queue_name="emials"),
        UnknownQueue,
        "queue 'emials' is not in TASKS['default']['QUEUES']; did you mean 'emails'?",
    ),
    "lane that could meet another key": (
        lambda project: send.using(lane=lambda: "a\nb").enqueue(),
        InvalidName,
        r"lane 'a\nb': use at most 128 bytes of printable text",
    ),
    "unknown option": (
        lambda project: send.using(max_failure=1),  # type: ignore[call-arg]
        InvalidOption,
        "unknown option 'max_failure' of a task; did you mean 'max_failures'?",
    ),
    "argument that would not come back equal": (
        lambda project: send.enqueue(a=[0, 1, {2}]),
        InvalidArguments,
        'kwargs["a"][2] is of the type set, which JSON would not bring back: pass sorted(...) of it',
    ),
    "arguments over 512 KiB": (
        lambda project: send.enqueue("x" * 524_288),
        PayloadTooLarge,
        "the arguments take 524,297 bytes as JSON, and 524,288 is the cap",
    ),
    "path without a task": (
        lambda project: resolve("tests.integration.test_bad_input.sent"),
        UnresolvableTask,
        "no task at 'tests.integration.test_bad_input.sent': AttributeError",
    ),
    "server that is down": (
        Project.enqueue_without_a_server,
        BusUnavailable,
        "no answer from the server: Error 111 connecting to 127.0.0.1:1",
    ),
    "wrong password": (
        Project.enqueue_with_a_wrong_password,
        BusRefused,
        "the server refuses this user, check password and ACL rules",
    ),
    "server that is too old": (
        Project.start_with_an_old_server,
        UnsupportedServer,
        "the server is redis 6.2.14, the queue needs 7.0 or newer: upgrade the server",
    ),
    "use of the queue's alias as a cache": (
        lambda project: caches["emq"].clear(),
        CacheUseRefused,
        "CACHES['emq'] holds the jobs of echomq_django and is no cache: clear() is refused. Use another alias",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_the_next_step(project: Project, mistake: str) -> None:
    make, error, message = MISTAKES[mistake]

    with pytest.raises(error, match=re.escape(message)) as raised:
        make(project)

    assert "s3cret" not in str(raised.value)
