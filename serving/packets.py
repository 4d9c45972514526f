"""Packets between a screen's process and the server: the packets of Textual's web driver, and one kind of
stalltop's own.

A packet is a letter, the length of its content (4 bytes, big endian), and the content. The letter says what
the content is: ``D`` terminal input or output, ``M`` JSON about the session, ``F`` (stalltop's own) a file
for the browser (name, zero byte, content).
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator
from typing import NamedTuple

READY = b"__GANGLION__\n"
"""Line that Textual's web driver writes before its first packet."""
MOST_BYTES = 80 << 20
"""Maximum size of a packet in bytes. The largest packets are files with a saved window."""
_HEAD = struct.Struct(">cI")
_LINES_BEFORE = 20
"""Maximum number of lines before ``READY``. Libraries may print such lines while the screen starts."""


class Packet(NamedTuple):
    """One packet, with its letter as ``kind``."""

    kind: bytes
    content: bytes


class FilePacket(NamedTuple):
    """A file for the browser."""

    name: str
    content: bytes


def packed(kind: bytes, content: bytes) -> bytes:
    """Encodes a packet."""
    return _HEAD.pack(kind, len(content)) + content


def about(type_: str, **more: object) -> bytes:
    """Encodes a packet about the session (``M``)."""
    return packed(b"M", json.dumps({"type": type_, **more}).encode())


def packed_file(file: FilePacket) -> bytes:
    """Encodes a packet with a file (``F``)."""
    return packed(b"F", file.name.encode("utf-8", "replace") + b"\0" + file.content)


def file_in(content: bytes) -> FilePacket:
    """Decodes the content of a packet with a file."""
    name, _, rest = content.partition(b"\0")
    return FilePacket(name.decode("utf-8", "replace"), rest)


async def packets(stream: asyncio.StreamReader) -> AsyncIterator[Packet]:
    """Yields the packets that a screen writes to ``stream``, until the stream ends. Raises ValueError if the
    screen writes something else."""
    for _ in range(_LINES_BEFORE):
        line = await stream.readline()
        if line == READY or not line:
            break
    else:
        raise ValueError("the screen did not start: its process wrote unexpected output; reload the page")
    while True:
        try:
            kind, length = _HEAD.unpack(await stream.readexactly(_HEAD.size))
            if length > MOST_BYTES:
                raise ValueError(f"the screen sent a packet of {length:,} bytes, more than {MOST_BYTES:,}")
            yield Packet(kind, await stream.readexactly(length))
        except asyncio.IncompleteReadError:
            return
