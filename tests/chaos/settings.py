"""Settings of the worker processes: the suite's, the handlers of these tests, and the options of the test that runs."""

import json
import os

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES, Q_CLUSTER, TASKS
from tests.settings import INSTALLED_APPS as SHARED


class Hasty(float):
    """A pause that django-q2 takes for the 30 seconds after which it looks at its schedules."""

    def __radd__(self, passed: float) -> float:
        return passed + 30


# Workers show no admin: hundreds of them start in these tests, and its modules take a fifth of the time to import.
NO_ADMIN = {"django.contrib.admin": "django.contrib.admin.apps.SimpleAdminConfig"}
INSTALLED_APPS = [*(NO_ADMIN.get(app, app) for app in SHARED), "tests.chaos"]
DEBUG = bool(os.environ.get("EMQ_TEST_DEBUG"))
DATABASES["default"]["CONN_MAX_AGE"] = int(os.environ.get("EMQ_TEST_CONN_MAX_AGE", "0"))
TASKS["default"]["OPTIONS"] |= json.loads(os.environ.get("EMQ_TEST_OPTIONS", "{}"))
Q_CLUSTER |= {"ALT_CLUSTERS": {"emq": {"guard_cycle": Hasty(0.5), "poll": 0.05}}}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"with pid": {"format": "%(process)d %(levelname)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "with pid"}},
    "loggers": {"echomq_django": {"handlers": ["console"]}},
}
