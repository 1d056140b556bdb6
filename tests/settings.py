"""Settings of the test suite.

The environment names the servers and the prefix of the keys, so that a worker process started by a test finds the
ones of that test. `tests/conftest.py` starts the servers and fills both in.
"""

import os
from typing import Any
from urllib.parse import urlsplit

import django


def database(url: str) -> dict[str, Any]:
    """Read `postgresql://user:password@host:port/name` or `sqlite:///path` as an entry of `DATABASES`."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": parts.path.removeprefix("/") or ":memory:"}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        "USER": parts.username or "",
        "PASSWORD": parts.password or "",
        "NAME": parts.path.removeprefix("/"),
    }


SECRET_KEY = "only for tests"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "tests.urls"
STATIC_URL = "static/"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_q",
    "echomq_django",
]
if django.VERSION < (6,):
    INSTALLED_APPS.append("django_tasks")

MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

_default = database(os.environ.get("EMQ_TEST_DATABASE_URL", "postgresql://postgres@127.0.0.1/emq"))
_other_name = _default["NAME"] if _default["NAME"] == ":memory:" else f"{_default['NAME']}_other"
DATABASES = {"default": _default, "other": {**_default, "NAME": _other_name}}

CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "emq": {
        "BACKEND": "echomq_django.cache.BusCache",
        "LOCATION": os.environ.get("EMQ_TEST_REDIS_URL", "redis://127.0.0.1:1/0"),
    },
}

TASKS = {
    "default": {
        "BACKEND": "echomq_django.backend.EchoMQBackend",
        "QUEUES": ["default", "emails"],
        "OPTIONS": {"cache": "emq", "prefix": os.environ.get("EMQ_TEST_PREFIX", "emq")},
    }
}

Q_CLUSTER = {"orm": "default", "timeout": 50, "retry": 60, "catch_up": False, "workers": 1}
