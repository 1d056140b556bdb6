"""One rule to find anything: `bus/<noun>.py:<verb>()` runs `lua/<noun>/<verb>.lua`, and nothing else runs it."""

import ast
import re
from pathlib import Path

import pytest

from echomq_django.bus import scripts
from echomq_django.exceptions import UnsupportedServer
from tests.bus.verbs import VERBS
from tests.bus.view import changes

SCRIPTS = {str(path.relative_to(scripts.ROOT).with_suffix("")) for path in scripts.ROOT.glob("*/*.lua")}
SCRIPTS = {name for name in SCRIPTS if not name.startswith("lib/")}
PACKAGE = Path(scripts.__file__).parent.parent
NAMED = re.compile(r'Script\("([\w/]+)"')
# Verbs whose plain name would hide a builtin of Python.
ALIASES = {"queue/open": "open_queue"}


def test_every_verb_is_tried_in_this_suite():
    assert VERBS.keys() == SCRIPTS


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_one_function_of_the_module_of_its_noun_stands_for_a_script(name):
    noun, verb = name.split("/")
    users = {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if name in NAMED.findall(path.read_text())}
    assert users == {Path("bus", f"{noun}.py")}
    module = ast.parse((PACKAGE / "bus" / f"{noun}.py").read_text())
    functions = {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
    assert ALIASES.get(name, verb) in functions


def test_every_script_that_python_names_exists():
    named = {name for path in PACKAGE.rglob("*.py") for name in NAMED.findall(path.read_text())}
    assert named == SCRIPTS


# What a holder says of its own lease is decided by its token, whatever moved into the queue meanwhile.
BY_TOKEN = {"jobs/extend", "jobs/complete", "jobs/retry", "jobs/release", "jobs/die", "jobs/progress", "dead/forget"}
READS = {"queue/count", "dead/unmirrored"}


@pytest.mark.parametrize("name", sorted(VERBS.keys() - BY_TOKEN - READS - {"wakeups/pass_on"}))
def test_another_protocol_is_refused_before_anything_is_touched(queue, name):
    act, _ = VERBS[name](queue)
    queue.client.hset(queue.keys.meta, "protocol", "2")
    with changes(queue) as changed, pytest.raises(UnsupportedServer, match=f"{name}: this queue speaks protocol 2"):
        act()
    assert changed == {}


@pytest.mark.parametrize("name", sorted(BY_TOKEN | READS))
def test_another_protocol_does_not_keep_a_holder_from_ending_its_lease(queue, name):
    act, expected = VERBS[name](queue)
    queue.client.hset(queue.keys.meta, "protocol", "2")
    assert act() == expected
