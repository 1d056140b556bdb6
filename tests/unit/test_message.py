import pytest
from hypothesis import given
from hypothesis import strategies as st

from echomq_django.bus.message import Message

names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)
texts = st.dictionaries(st.text(), st.text(), max_size=3)
messages = st.builds(
    Message,
    task=names,
    payload=st.binary(),
    alias=names,
    headers=texts,
    options=st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text(), max_size=3),
)


@given(messages)
def test_a_message_comes_back_as_it_was(message):
    assert Message.unpack(message.pack()) == message


def test_what_is_not_used_costs_a_byte_each():
    assert Message("app.send", b"[[],{}]").pack() == b"app.send\0\0\0\0[[],{}]"


def test_a_payload_is_kept_byte_for_byte():
    payload = b'\0[[1.0, 1],\t{"a" : "\\u0000"}]\xff\0'
    assert Message.unpack(Message("app.send", payload).pack()).payload == payload


@pytest.mark.parametrize("body", [b"", b"app.send", b"a\0b\0c\0d", b"a\0b\0{\0\0", b"\xff\0b\0\0\0[[],{}]"])
def test_what_is_no_message_is_a_value_error(body):
    with pytest.raises(ValueError):  # noqa: PT011 - json and codecs say it in words of their own
        Message.unpack(body)
