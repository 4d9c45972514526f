"""Stands in for the process of a screen: speaks the screen's packet protocol and behaves as the first
argument says."""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
import time

from stalltop.serving.link import LinkSource
from stalltop.serving.packets import READY, FilePacket, packed, packed_file


def send(packet: bytes) -> None:
    while packet:
        packet = packet[os.write(1, packet) :]


def exactly(length: int) -> bytes:
    content = b""
    while len(content) < length:
        part = os.read(0, length - len(content))
        if not part:
            sys.exit(0)
        content += part
    return content


def main() -> int:
    kind, link = sys.argv[1], int(sys.argv[2])
    if kind == "fail":
        print("it broke\x1b[31m\nfor a reason", file=sys.stderr)
        return 1
    if kind == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdout.flush()
    os.write(1, b"a library says hello\n" + READY)
    send(packed(b"D", f"pid {os.getpid()}\n".encode()))
    if kind == "file":
        send(packed_file(FilePacket('naïve "name".txt', b"\0content\0")))
    if kind == "windows":
        source = LinkSource(socket.socket(fileno=link))
        send(packed(b"D", f"window of {source.read().host}\n".encode()))
    if kind == "environment":
        send(packed(b"D", "\n".join(sorted(os.environ)).encode()))
    if kind == "hang":
        time.sleep(600)
    while True:
        letter, length = struct.unpack(">cI", exactly(5))
        content = exactly(length)
        if letter == b"M" and b"quit" in content:
            return 0
        send(packed(b"D", letter + b":" + content))


if __name__ == "__main__":
    sys.exit(main())
