"""Settings of the benchmarks: the defaults of a new project, with logger `django.tasks` at WARNING as in production."""

import os

import django

SECRET_KEY = "only for benchmarks"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django_q", "echomq_django", "tests.bench"]
FRAMEWORK = "django.tasks"
if django.VERSION < (6,):
    FRAMEWORK = "django_tasks"
    INSTALLED_APPS.append(FRAMEWORK)
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["EMQ_BENCH_DATABASE"]}}
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "emq": {"BACKEND": "echomq_django.cache.BusCache", "LOCATION": os.environ["EMQ_BENCH_REDIS_URL"]},
}
TASKS = {
    "default": {"BACKEND": "echomq_django.backend.EchoMQBackend", "QUEUES": ["default"], "OPTIONS": {}},
    "dummy": {"BACKEND": f"{FRAMEWORK}.backends.dummy.DummyBackend"},  # what Django itself takes
    "fifty": {
        "BACKEND": "echomq_django.backend.EchoMQBackend",
        "QUEUES": ["default", *(f"queue-{number}" for number in range(1, 50))],
        "OPTIONS": {},
    },
}
Q_CLUSTER = {"orm": "default", "timeout": 60, "retry": 120}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "loggers": {"django.tasks": {"level": "WARNING"}, "django_tasks": {"level": "WARNING"}},
}
