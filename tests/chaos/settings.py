"""Settings of the worker processes: the suite's, the handlers of these tests, and the options of the test that runs."""

import json
import os

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS as SHARED
from tests.settings import TASKS

INSTALLED_APPS = [*SHARED, "tests.chaos"]
DEBUG = bool(os.environ.get("EMQ_TEST_DEBUG"))
TASKS["default"]["OPTIONS"] |= json.loads(os.environ.get("EMQ_TEST_OPTIONS", "{}"))
