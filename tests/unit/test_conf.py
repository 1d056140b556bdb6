"""The settings are checked as a whole, without a network, and each complaint says what to write instead."""

from typing import Any

import pytest
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from echomq_django import conf
from echomq_django.backend import EchoMQBackend
from echomq_django.bus.ids import queue_bits
from echomq_django.conf import ImproperlyConfiguredQueue, QueueSettings
from echomq_django.exceptions import EchoMQError, InvalidSetting

OURS = "echomq_django.backend.EchoMQBackend"
DUMMY = "django.tasks.backends.dummy.DummyBackend"


class Derived(EchoMQBackend):
    pass


def load(settings: Settings, options: Any = None, **entry: Any) -> conf.Settings:
    settings.TASKS = {"default": {"BACKEND": OURS, **({} if options is None else {"OPTIONS": options}), **entry}}
    return conf.load("default")


def test_without_options_the_defaults_hold(settings: Settings) -> None:
    found = load(settings)

    assert (found.alias, found.cache, found.prefix, found.queues) == ("default", "emq", "emq", ("default",))
    assert found.for_queue("default") == QueueSettings(
        lease=30, max_stalled=3, max_failures=5, result_ttl=600, durability="memory"
    )


def test_a_queue_inherits_what_it_does_not_say(settings: Settings) -> None:
    options = {
        "cache": "jobs",
        "prefix": "shop",
        "lease": 10,
        "max_stalled": None,
        "queues": {"emails": {"lease": 0.5}},
    }

    found = load(settings, options, QUEUES=["default", "emails"])

    assert (found.cache, found.prefix) == ("jobs", "shop")
    assert found.for_queue("default") == QueueSettings(lease=10, max_stalled=None)
    assert found.for_queue("emails") == QueueSettings(lease=0.5, max_stalled=None)


def test_the_same_object_comes_back_until_the_settings_change(settings: Settings) -> None:
    first = load(settings)
    assert conf.load("default") is first

    assert load(settings, {"lease": 99}).defaults.lease == 99


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"leese": 3}, r"\['OPTIONS'\] has an unknown key 'leese'; did you mean 'lease'\?"),
        ({"unheard_of": 1}, "unknown key 'unheard_of'; there is 'cache', 'durability', 'lease'"),
        ({1: 1}, "unknown key 1"),
        ({"lease": 0}, r"\['lease'\] = 0: must be a number of seconds above 0"),
        ({"lease": -1}, "must be a number of seconds above 0"),
        ({"lease": "30"}, "'30': must be a number of seconds"),
        ({"lease": True}, "True: must be a number of seconds"),
        ({"lease": float("nan")}, "nan: must be a number of seconds"),
        ({"lease": float("inf")}, "inf: must be a number of seconds"),
        ({"lease": 10**9}, "at most 604,800"),
        ({"lease": None}, "None: must be a number"),
        ({"max_stalled": 0}, "must be an integer from 1 to 65,534, or None"),
        ({"middleware": "app.Class"}, r"\['middleware'\] = 'app.Class': must be a list of import paths"),
        ({"middleware": [5]}, r"\['middleware'\] = \[5\]: must be a list of import paths"),
        ({"unique": "done"}, "unknown key 'unique'"),
        ({"max_stalled": 65_535}, "must be an integer from 1 to 65,534"),
        ({"max_stalled": 1.5}, "must be an integer from 1"),
        ({"max_failures": 0}, "must be an integer of at least 1"),
        ({"max_failures": None}, "must be an integer of at least 1"),
        ({"result_ttl": -1}, "must be a number of seconds from 0"),
        ({"soft_time_limit": -1}, "must be a number of seconds above 0 and at most 315,360,000, or None for no limit"),
        ({"durability": "floor"}, "comes later: use 'memory'"),
        ({"durability": "replicated"}, "comes later: use 'memory'"),
        ({"durability": "disk"}, "must be 'memory'"),
        ({"cache": ""}, "must be a string that is not empty"),
        ({"cache": None}, "must be a string"),
        ({"prefix": "with space"}, "prefix 'with space'"),
        ({"prefix": "{x}"}, "prefix"),
        ({"prefix": 5}, "must be a string"),
        ({"queues": {"emials": {}}}, r"\['queues'\] has an unknown key 'emials'; did you mean 'emails'\?"),
        ({"queues": {"emails": {"leese": 1}}}, r"\['queues'\]\['emails'\] has an unknown key 'leese'"),
        ({"queues": {"emails": {"lease": 0}}}, r"\['queues'\]\['emails'\]\['lease'\] = 0"),
        ({"queues": {"emails": 5}}, r"\['emails'\] = 5: must be a dictionary"),
        ({"queues": ["emails"]}, r"\['queues'\] = \['emails'\]: must be a dictionary"),
        ("lease", r"\['OPTIONS'\] = 'lease': must be a dictionary"),
    ],
    ids=str,
)
def test_an_impossible_option_is_refused(settings: Settings, options: Any, complaint: str) -> None:
    with pytest.raises(ImproperlyConfiguredQueue, match=rf"^TASKS\['default'\].*{complaint}"):
        load(settings, options, QUEUES=["default", "emails"])


@pytest.mark.parametrize(
    ("queues", "complaint"),
    [
        ([], "must list at least one queue by its name"),
        ("default", "must list at least one queue by its name"),
        (None, "must list at least one queue by its name"),
        (["a:b"], "queue name 'a:b'"),
        (["a}b"], "queue name 'a}b'"),
        (["{a}"], "queue name '{a}'"),
        ([""], "queue name ''"),
        (["x" * 65], "queue name"),
        ([7], "must list at least one queue by its name"),
        (["ünï"], "queue name"),
    ],
    ids=str,
)
def test_impossible_queue_names_are_refused(settings: Settings, queues: Any, complaint: str) -> None:
    with pytest.raises(ImproperlyConfiguredQueue, match=complaint):
        load(settings, QUEUES=queues)


def test_two_names_that_job_ids_could_not_tell_apart_are_refused(settings: Settings) -> None:
    seen: dict[int, str] = {}
    for number in range(100_000):
        other = seen.setdefault(queue_bits(f"q{number}"), f"q{number}")
        if other != f"q{number}":
            break

    with pytest.raises(ImproperlyConfiguredQueue, match=f"'{other}' and 'q{number}' collide.*rename one"):
        load(settings, QUEUES=[other, f"q{number}"])


def test_a_key_beside_options_is_refused_too(settings: Settings) -> None:
    with pytest.raises(ImproperlyConfiguredQueue, match="unknown key 'QUEUE'; did you mean 'QUEUES'"):
        load(settings, QUEUE=["default"])


def test_an_alias_that_is_not_there_is_named(settings: Settings) -> None:
    load(settings)

    with pytest.raises(ImproperlyConfiguredQueue, match="TASKS has no alias 'defualt'; did you mean 'default'"):
        conf.load("defualt")


def test_a_complaint_can_be_caught_as_django_s_or_as_ours(settings: Settings) -> None:
    for kind in (ImproperlyConfigured, InvalidSetting, EchoMQError):
        with pytest.raises(kind):
            load(settings, {"lease": 0})


def test_only_aliases_of_our_backend_are_listed(settings: Settings) -> None:
    settings.TASKS = {
        "a": {"BACKEND": OURS},
        "b": {"BACKEND": DUMMY},
        "c": {"BACKEND": "no.such.Backend"},
        "d": {"BACKEND": "echomq_django.testing.InlineBackend"},
        "e": {"BACKEND": f"{__name__}.Derived"},
    }

    assert conf.aliases() == ["a", "e"]


def test_starting_django_refuses_a_wrong_option(settings: Settings) -> None:
    settings.TASKS = {"default": {"BACKEND": OURS}, "other": {"BACKEND": OURS, "OPTIONS": {"lease": 0}}}

    with pytest.raises(ImproperlyConfigured, match=r"TASKS\['other'\]\['OPTIONS'\]\['lease'\]"):
        apps.get_app_config("echomq_django").ready()


def test_starting_django_refuses_a_cache_alias_that_is_not_there(settings: Settings) -> None:
    settings.TASKS = {"default": {"BACKEND": OURS, "OPTIONS": {"cache": "emg"}}}

    with pytest.raises(ImproperlyConfigured, match=r"\['cache'\] = 'emg' is no alias of CACHES; did you mean 'emq'\?"):
        apps.get_app_config("echomq_django").ready()
