"""What mypy takes for the settings: those of the suite, with the app of the example project."""

from example_project.settings import DEMO_DIRECTORY as DEMO_DIRECTORY
from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "example_project.bot"]
