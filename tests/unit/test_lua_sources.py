"""Each script is checked as the server gets it: with its fragments pasted in."""

import pytest
import redis

from echomq_django.bus.scripts import ROOT, expand
from tests.lua_checker import header_problems, source_problems

SCRIPTS = sorted(path.relative_to(ROOT).with_suffix("") for path in ROOT.glob("*/*.lua") if path.parent.name != "lib")
FRAGMENTS = sorted(path.stem for path in ROOT.glob("lib/*.lua"))

every_script = pytest.mark.parametrize("script", SCRIPTS, ids=str)


def text(script):
    return (ROOT / script).with_suffix(".lua").read_text()


def test_there_are_scripts():
    assert len(SCRIPTS) > 10


@every_script
def test_a_script_declares_and_uses_every_name(script):
    assert source_problems(text(script)) == []


@every_script
def test_the_header_of_a_script_tells_what_its_body_does(script):
    assert header_problems(script.name, text(script)) == []


@every_script
def test_the_server_compiles_a_script(script, valkey):
    with redis.Redis.from_url(valkey.url) as client:
        assert client.script_load(expand(text(script)))


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_a_fragment_is_pasted_somewhere(fragment):
    assert any(f"--- @include {fragment}\n" in text(script) for script in SCRIPTS)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("local a = = 1", "line 1: syntax error"),
        ("return KEYS[1] .. suffix", "line 1: suffix is not declared"),
        ("total = 1", "line 1: total is not declared"),
        ("function total() end", "line 1: total is not declared"),
        ("local a = 1\nreturn 2", "line 1: a is never read"),
        ("local a = 1\na = 2", "line 1: a is never read"),
        ("local function f(n) return n end", "line 1: f is never read"),
        ("do local a = 1; redis.call('GET', a) end\nreturn a", "line 2: a is not declared"),
        ("for i = 1, i do redis.call('GET', i) end", "line 1: i is not declared"),
        ("local a = a\nreturn a", "line 1: a is not declared"),
        ("--- @include clock\nreturn 1", "fragment clock is not used"),
    ],
)
def test_the_checker_sees(source, problem):
    assert source_problems(source) == [problem]


@pytest.mark.parametrize(
    "source",
    [
        "--- @include clock\nreturn now",
        "local function f(n) return n == 0 and 1 or n * f(n - 1) end\nreturn f(3)",
        "for _, id in ipairs({ [KEYS[1]] = ARGV, name = 1 }) do redis.call('DEL', id) end",
        "repeat local done = redis.call('GET', KEYS[1]) until done",
        "local a, t\na = 1\nt = { b = a }\nt.b = t.c\nreturn t:name()",
        "local f = function(...) return select('#', ...) end\nreturn f()",
    ],
)
def test_the_checker_accepts(source):
    assert source_problems(source) == []


HEADER = """\
-- take: Takes one.
-- KEYS[1] pending  ZSET  id -> order
-- KEYS[2+] row  STRING  one a job
-- ARGV[1] base  prefix
-- Returns 1
"""
BODY = "local a, b, n = KEYS[1], ARGV[1], #KEYS"


def test_the_checker_accepts_a_true_header():
    assert header_problems("take", HEADER + BODY) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("-- take: Takes one.", "-- take", "the first comment is not '-- take: <sentence>.'"),
        ("-- Returns 1\n", "", "the header has no '-- Returns <shape>'"),
        ("ARGV[1], #", "1, #", "ARGV[1] is documented but not used"),
        (", #KEYS", ", #KEYS, ARGV[2]", "ARGV[2] is used but not documented"),
        ("-- ARGV[1] ", "-- ARGV[1+] ", "ARGV[n+] is documented but not used"),
        ("KEYS[2+] row", "KEYS[2] row", "KEYS[n+] is used but not documented"),
        ("KEYS[2+]", "KEYS[3+]", "KEYS are not numbered 1, 2, ..., with a '+' at the last only"),
        ("  ZSET  ", "  ", "KEYS[1] has no type"),
    ],
)
def test_the_checker_sees_a_header_that_lies(old, new, problem):
    assert problem in header_problems("take", (HEADER + BODY).replace(old, new))
