"""Errors are grouped by what went wrong, not by whom it hit."""

import pytest

from echomq_django.floor.fingerprint import fingerprint

TRACEBACK = """Traceback (most recent call last):
  File "/srv/releases/41/shop/tasks.py", line 7, in send
    client.post(order)
  File "/usr/lib/python3.12/site-packages/client/api.py", line 99, in post
    raise Refused(order)
client.Refused: order 41
"""


def print_of(error_class: str = "client.Refused", message: str = "order 41", traceback: str = TRACEBACK) -> str:
    return fingerprint(error_class, message, traceback)


def test_a_fingerprint_is_twelve_hex_digits() -> None:
    assert len(print_of()) == 12
    assert int(print_of(), 16) >= 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 41", "order 4711"),
        ("no user 'ana'", "no user 'bob'"),
        ("can't find 'ana'", "can't find 'bob'"),
        ('no file "a.txt"', 'no file "b"'),
        ("job 6f9619ff-8b86-d011-b42d-00cf4fc964ff", "job 00000000-8b86-d011-b42d-00cf4fc964fe"),
        ("<Order at 0x7f3a>", "<Order at 0x11bc>"),
    ],
)
def test_values_in_a_message_make_no_difference(one: str, other: str) -> None:
    assert print_of(message=one) == print_of(message=other)


@pytest.mark.parametrize(
    "changed",
    [
        {"error_class": "client.Timeout"},
        {"message": "shipment 41"},
        {"traceback": TRACEBACK.replace("in send", "in cancel")},
        {"traceback": TRACEBACK.replace("shop/tasks.py", "shop/views.py")},
        {"traceback": ""},
    ],
)
def test_another_class_message_or_place_is_another_error(changed: dict[str, str]) -> None:
    assert print_of(**changed) != print_of()


@pytest.mark.parametrize(
    "changed",
    [
        TRACEBACK.replace("line 7", "line 70"),
        TRACEBACK.replace("/srv/releases/41/", "/srv/releases/42/"),
        TRACEBACK.replace("client/api.py", "client/transport.py"),
    ],
)
def test_moved_lines_new_releases_and_the_inside_of_libraries_make_no_difference(changed: str) -> None:
    assert print_of(traceback=changed) == print_of()


def test_a_message_of_nothing_but_quotes_takes_no_time() -> None:
    assert print_of(message="'\"" * 100_000)
