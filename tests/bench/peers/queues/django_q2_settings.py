"""Settings of the cluster of django-q2."""

import os

from tests.bench.peers.options import OPTIONS

SECRET_KEY = "only for benchmarks"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django_q"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["EMQ_BENCH_DATABASE"]}}
Q_CLUSTER = {
    "redis": os.environ["EMQ_BENCH_REDIS_URL"],
    "timeout": 60,
    "retry": 120,
    "log_level": "WARNING",
    **OPTIONS,
}
