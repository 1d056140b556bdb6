"""The documentation site. Its source folder is the repository, so that links work here and on a code host alike."""

import os
import sys
from importlib.metadata import version as installed
from pathlib import Path

import django

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("EMQ_TEST_DATABASE_URL", "sqlite://")  # nothing connects, and no driver is needed
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
django.setup()

project = "echomq-django"
author = copyright = "echomq-django contributors"
version = release = installed("echomq-django")

extensions = ["myst_parser", "sphinx.ext.autodoc"]
include_patterns = ["README.md", "CHANGELOG.md", "lua/README.md", "docs/**"]
exclude_patterns = [".*", "*/.*", "build", "dist", "site", "tests", "echomq_django", "example_project"]
root_doc = "docs/index"
myst_heading_anchors = 3

# Docstrings call names `so`, as the pages do.
default_role = "code"
autodoc_class_signature = "separated"  # a constructor is shown only where users call it
autodoc_default_options = {"member-order": "bysource", "exclude-members": "__init__, __new__"}
maximum_signature_line_length = 88
nitpicky = True
# Other projects have sites of their own, and this one is built without a network. The rest is ours, but no name to use.
nitpick_ignore_regex = [
    ("py:.*", r"(?!echomq_django\.).*"),
    ("py:.*", r"echomq_django\.(tasks\.(P|R|Options|(Context)?Decorator)|steps\.Step|bus\.queue\.Queue)"),
]

html_theme = "furo"
html_title = f"echomq-django {release}"
html_copy_source = False
html_show_copyright = False
templates_path = ["_templates"]
html_additional_pages = {"index": "redirect.html"}
