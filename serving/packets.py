"""The packets between a screen's process and the server: those of Textual's driver for the web, and one more.

A packet is a letter, the length of what follows (4 bytes, big endian), and that: ``D`` what a terminal gets
or sends, ``M`` JSON about the session, ``F`` a file for the browser (ours: its name, a zero byte, its
content).
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator
from typing import NamedTuple

READY = b"__GANGLION__\n"
"""What the driver writes before its first packet."""
MOST_BYTES = 80 << 20
"""Largest packet that is taken: a saved window with some room."""
_HEAD = struct.Struct(">cI")
_LINES_BEFORE = 20
"""Most lines before the first packet: what libraries may print."""


class Packet(NamedTuple):
    """One packet."""

    kind: bytes
    content: bytes


class FilePacket(NamedTuple):
    """A file for the browser."""

    name: str
    content: bytes


def packed(kind: bytes, content: bytes) -> bytes:
    """A packet as it is sent."""
    return _HEAD.pack(kind, len(content)) + content


def about(type_: str, **more: object) -> bytes:
    """A packet about the session."""
    return packed(b"M", json.dumps({"type": type_, **more}).encode())


def packed_file(file: FilePacket) -> bytes:
    """A file as it is sent."""
    return packed(b"F", file.name.encode("utf-8", "replace") + b"\0" + file.content)


def file_in(content: bytes) -> FilePacket:
    """The file in the content of a packet."""
    name, _, rest = content.partition(b"\0")
    return FilePacket(name.decode("utf-8", "replace"), rest)


async def packets(stream: asyncio.StreamReader) -> AsyncIterator[Packet]:
    """The packets of a screen, until it ends. Raises ValueError where it sends anything else."""
    for _ in range(_LINES_BEFORE):
        line = await stream.readline()
        if line == READY or not line:
            break
    else:
        raise ValueError("the screen did not start")
    while True:
        try:
            kind, length = _HEAD.unpack(await stream.readexactly(_HEAD.size))
            if length > MOST_BYTES:
                raise ValueError("the screen sent too much at once")
            yield Packet(kind, await stream.readexactly(length))
        except asyncio.IncompleteReadError:
            return
