"""Tests the messages between tracer and clients: bounds, versions, and what is refused."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalltop.model.hosts.tracer import Tracer
from stalltop.recordings.message.encoding import LENGTH, MOST_BYTES, encode
from stalltop.serving.host import messages, recall, tracer_server
from stalltop.serving.host.messages import MessageError, MessageInbox, common_version, message, told
from tests.windows.full import full_window

TRACER = Tracer(4711, "root", 1_700_000_000.0, "stalltop record")
READERS: dict[str, Callable[[bytes], object]] = {
    "versions": common_version,
    "tracer": messages.tracer_of,
    "past": messages.past_before,
    "refusal": messages.refusal_of,
    "lost": messages.lost_of,
}


def content_of(frame: bytes) -> bytes:
    ((_, content),) = MessageInbox().feed(frame)
    return content


@given(st.lists(st.tuples(st.sampled_from([b"W", b"x"]), st.binary(max_size=50)), max_size=6), st.data())
def test_messages_are_found_however_the_bytes_arrive(
    sent: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    inbox, found = MessageInbox(), list[tuple[bytes, bytes]]()
    stream = b"".join(message(kind, content) for kind, content in sent)
    while stream:
        part = data.draw(st.integers(1, len(stream)))
        found += inbox.feed(stream[:part])
        stream = stream[part:]
    assert found == sent


def test_a_message_that_is_too_long_is_refused_before_it_arrives() -> None:
    inbox = MessageInbox(most=10)
    assert list(inbox.feed(message(b"W", b"x" * 10))) == [(b"W", b"x" * 10)]
    with pytest.raises(MessageError, match="longer than 10"):
        list(inbox.feed(message(b"W", b"x" * 11)[:5]))


@pytest.mark.parametrize("name", READERS)
@given(st.binary(max_size=60) | st.from_type(type(None)).map(lambda _: b"null"))
def test_any_content_raises_message_errors_only(name: str, content: bytes) -> None:
    with pytest.raises(MessageError):
        READERS[name](content)


@pytest.mark.parametrize("name", READERS)
@given(
    st.dictionaries(
        st.sampled_from(["versions", "version", "tracer", "before", "reason", "remedy", "windows"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=3),
        ),
    )
)
def test_any_object_raises_message_errors_only(name: str, values: dict[str, object]) -> None:
    with contextlib.suppress(MessageError):
        READERS[name](json.dumps(values).encode())


@pytest.mark.parametrize(
    ("asked", "spoken"), [([1, 1], 1), ([0, 1], 1), ([1, 9], 1), ([0, 0], None), ([2, 9], None)]
)
def test_both_sides_speak_the_newest_common_version(asked: list[int], spoken: int | None) -> None:
    content = content_of(told(messages.HELLO, versions=asked, later="ignored"))
    if spoken is None:
        with pytest.raises(MessageError, match="versions 1 to 1"):
            common_version(content)
    else:
        assert common_version(content) == spoken


def test_the_version_before_is_spoken_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "VERSIONS", (1, 2))
    assert common_version(content_of(told(messages.HELLO, versions=[1, 1]))) == 1
    assert common_version(content_of(told(messages.HELLO, versions=[1, 2]))) == 2


def test_a_hello_says_who_the_tracer_is() -> None:
    assert messages.tracer_of(content_of(messages.hello_of_tracer(1, TRACER))) == TRACER
    with pytest.raises(MessageError, match="version 2"):
        messages.tracer_of(content_of(messages.hello_of_tracer(2, TRACER)))


def test_what_the_tracer_says_about_itself_has_no_control_characters() -> None:
    hostile = Tracer(1, "ro\x1b[2Jot", 0.0, "a\nb")
    found = messages.tracer_of(content_of(messages.hello_of_tracer(1, hostile)))
    assert (found.user, found.command) == ("ro[2Jot", "ab")


def test_the_document_lists_every_kind_array_and_bound() -> None:
    text = (Path(__file__).resolve().parents[4] / "docs" / "messages.md").read_text()
    kinds = {
        getattr(messages, name).decode()
        for name in ("HELLO", "PAST", "REFUSED", "WINDOW", "LOST", "KEPT", "END", "ALIVE")
    }
    assert set(re.findall(r"^\| `([A-Z])` \|", text, re.MULTILINE)) == kinds
    content = encode(full_window())
    (length,) = LENGTH.unpack_from(content)
    arrays = {name for name, _, _ in json.loads(content[LENGTH.size : LENGTH.size + length])["arrays"]}
    rows = re.findall(r"^\| ((?:`[a-z0-9_]+`(?:, )?)+) \| (?:for|rows)", text, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == arrays
    assert f"version is {messages.VERSIONS[1]}." in text
    assert f"at most {MOST_BYTES >> 20} MiB" in text
    assert f"at most {messages.MOST_ASKED >> 10} KiB" in " ".join(text.split())
    assert f"at most {tracer_server.MOST_CLIENTS} clients" in text
    assert f"At most {tracer_server.MOST_QUEUED >> 20} MiB wait" in text
    one_line = " ".join(text.split())
    assert f"and {tracer_server.MOST_QUEUED_TOTAL >> 20} MiB for all together" in one_line
    assert f"clients, {tracer_server.MOST_OF_USER} of one user" in one_line
    assert f"the last {tracer_server.OWNERS_PLACES} places are for root" in one_line
    assert f"at most {recall.MOST_PAST:,} |" in text
