"""The messages between the tracer of a host and its clients, described in docs/messages.md.

A message is its kind (a byte), the length of its content (4 bytes, big endian), and the content. Lengths are
bounded in both directions. What a version does not know, it ignores: messages of other kinds, and names in
JSON objects.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

from stalltop.files.plain import from_plain, integer, number, text, to_plain
from stalltop.model.errors import StalltopError
from stalltop.model.hosts.tracer import Tracer
from stalltop.recordings.message.encoding import MOST_BYTES

VERSIONS: Final = (1, 1)
"""Oldest and newest version of the messages that this program speaks."""
HELLO, PAST = b"H", b"P"
"""Kinds of messages of a client; the tracer answers HELLO with HELLO or REFUSED."""
REFUSED, WINDOW, LOST, KEPT, END, ALIVE = b"R", b"W", b"L", b"K", b"E", b"A"
"""Kinds of messages of the tracer: why it refuses; a window; how many windows are lost before the next one;
a window of the past, newest first; the end of the past; nothing but a sign of life."""
MOST_ASKED: Final = 4 << 10
"""Maximum length of the content of a client's message, in bytes."""
_HEAD: Final = struct.Struct(">cI")


class MessageError(StalltopError):
    """The other side of a socket sent something that is no message."""


def message(kind: bytes, content: bytes = b"") -> bytes:
    """Make a message."""
    return _HEAD.pack(kind, len(content)) + content


def told(kind: bytes, **values: object) -> bytes:
    """Make a message whose content is a JSON object."""
    return message(kind, json.dumps(values, separators=(",", ":")).encode())


class MessageInbox:
    """Finds messages in the bytes that arrive."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        """``most`` is the maximum length of a content, in bytes."""
        self._most = most
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Add ``data``; yield the kind and the content of each message that is complete. Raises MessageError
        if a message is too long."""
        self._bytes += data
        while len(self._bytes) >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._bytes)
            if length > self._most:
                raise MessageError(f"a message of {length:,} bytes is longer than {self._most:,}")
            end = _HEAD.size + length
            if len(self._bytes) < end:
                return
            content = bytes(self._bytes[_HEAD.size : end])
            del self._bytes[:end]
            yield kind, content


def hello_of_client() -> bytes:
    """Make the first message of a client."""
    return told(HELLO, versions=VERSIONS)


def hello_of_tracer(version: int, tracer: Tracer) -> bytes:
    """Make the tracer's answer to a client that it admits."""
    return told(HELLO, version=version, tracer=to_plain(tracer))


def common_version(content: bytes) -> int:
    """Return the newest version that both sides speak. ``content`` is that of a client's HELLO. Raises
    MessageError if there is none."""
    found = _object(content)
    try:
        least, most = (integer(one, "versions") for one in found["versions"])
    except (KeyError, TypeError, ValueError) as error:
        raise MessageError(f"invalid versions: {error}") from None
    version = min(most, VERSIONS[1])
    if version < max(least, VERSIONS[0]):
        raise MessageError(
            f"the tracer speaks versions {VERSIONS[0]} to {VERSIONS[1]} of its messages, this stalltop "
            f"{least} to {most}",
            "use the same release for both, or trace by yourself: --own",
        )
    return version


def tracer_of(content: bytes) -> Tracer:
    """Return who the tracer is, from its HELLO. Raises MessageError if the version is none of ours."""
    found = _object(content)
    try:
        version = integer(found.get("version"), "version")
        tracer = from_plain(Tracer, found.get("tracer"), "tracer")
    except ValueError as error:
        raise MessageError(str(error)) from None
    if not VERSIONS[0] <= version <= VERSIONS[1]:
        raise MessageError(f"the tracer chose version {version} of the messages, which is not known")
    return tracer


def past_before(content: bytes) -> float:
    """Return the Unix time up to which a client asks for the past. Raises MessageError."""
    try:
        return number(_object(content).get("before"), "before")
    except ValueError as error:
        raise MessageError(str(error)) from None


def refusal_of(content: bytes) -> tuple[str, str]:
    """Return the reason and the remedy of a refusal."""
    found = _object(content)
    try:
        return text(found.get("reason"), "reason"), text(found.get("remedy", ""), "remedy")
    except ValueError as error:
        raise MessageError(str(error)) from None


def lost_of(content: bytes) -> int:
    """Return how many windows were lost before the next one."""
    try:
        return integer(_object(content).get("windows"), "windows")
    except ValueError as error:
        raise MessageError(str(error)) from None


def _object(content: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"no JSON: {error}") from None
    if not isinstance(found, dict):
        raise MessageError("no JSON object")
    return found
