"""Settings of the example project. `manage.py demo` sets the environment that they read."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import django
from django.core.management.utils import get_random_secret_key

BASE_DIR = Path(__file__).resolve().parent


def database(url: str) -> dict[str, Any]:
    """Return the entry of `DATABASES` for `postgresql://user:password@host:port/name` or `sqlite:///file`."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        # A write takes its lock at once: one that upgrades from a read fails beside other processes.
        waiting = {"transaction_mode": "IMMEDIATE", "timeout": 20, "init_command": "PRAGMA journal_mode=WAL"}
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": unquote(parts.path[1:]), "OPTIONS": waiting}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path[1:]),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
    }


# The folder of a running demo. Only there may the page kill a worker.
DEMO_DIRECTORY = os.environ.get("DEMO_DIRECTORY")

DEBUG = DEMO_DIRECTORY is not None
SECRET_KEY = os.environ.get("SECRET_KEY") or get_random_secret_key()
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_q",
    "echomq_django",
    "example_project.bot",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

if django.VERSION >= (6, 0):
    MIDDLEWARE += ["django.middleware.csp.ContentSecurityPolicyMiddleware"]
    SECURE_CSP = {
        "default-src": ["'self'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
        "object-src": ["'none'"],
    }
else:
    INSTALLED_APPS += ["django_tasks"]

ROOT_URLCONF = "example_project.urls"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES = {"default": database(os.environ.get("DATABASE_URL") or f"sqlite:///{BASE_DIR / 'db.sqlite3'}")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "emq": {
        "BACKEND": "echomq_django.cache.BusCache",
        "LOCATION": os.environ.get("BUS_URL") or "redis://127.0.0.1:6379/0",
    },
}

TASKS = {
    "default": {
        "BACKEND": "echomq_django.backend.EchoMQBackend",
        "QUEUES": ["default", "lanes", "one-line"],
        # The default lease is 30 s: this one is short because somebody watches.
        "OPTIONS": {"cache": "emq", "lease": 5, "result_ttl": 3600},
    },
}

Q_CLUSTER = {"orm": "default", "timeout": 50, "retry": 60, "catch_up": False, "workers": 1}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        # One line for each request would hide the lines that matter, and the worker itself reports failed jobs.
        "django.server": {"level": "WARNING"},
        "django.tasks": {"level": "CRITICAL"},
        "django_tasks": {"level": "CRITICAL"},
    },
}

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "static/"

SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_HTTPONLY = True
# The demo speaks plain HTTP on this machine only.
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = not DEBUG
SECURE_SSL_REDIRECT = not DEBUG
