"""A file system that stops answering, as a network file system does whose server is down.

A process serves one file by FUSE (include/uapi/linux/fuse.h). While it is told to hang, it takes requests and
does not answer them, so whoever made them waits in the Linux kernel and cannot be killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_MNT_DETACH = 2

_SERVER = r"""
import ctypes, os, signal, struct, sys

place, name, source = sys.argv[1:4]
with open(source, "rb") as file:
    data = file.read()
connection = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={connection},rootmode=40755,user_id=0,group_id=0,allow_other"
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"hanging", place.encode(), b"fuse", 0, options.encode()):
    raise OSError(ctypes.get_errno(), "mount")
hangs, held = False, []

def hang(*_):
    global hangs
    hangs = True

def answer(*_):
    global hangs
    hangs = False
    while held:
        serve(held.pop(0))

signal.signal(signal.SIGUSR1, hang)
signal.signal(signal.SIGUSR2, answer)
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT = 1, 2, 3, 14, 15, 17, 18, 25, 26
OPENDIR, INTERRUPT, BATCH_FORGET = 27, 36, 42

def attributes(node):
    size, mode = (0, 0o40755) if node == 1 else (len(data), 0o100755)
    blocks = (size + 511) // 512
    return struct.pack("=6Q10I", node, size, blocks, 0, 10**9, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

def reply(unique, content, error=0):
    try:
        os.write(connection, struct.pack("=IiQ", 16 + len(content), -error, unique) + content)
    except OSError:  # The request was interrupted.
        pass

def serve(request):
    _, code, unique, node, *_ = struct.unpack_from("=IIQQIIII", request)
    body = request[40:]
    if code == INIT:
        major, minor = struct.unpack_from("=II", body)
        reply(unique, struct.pack("=IIIIHHIIHHI28x", 7, 31, 1 << 17, 0, 12, 9, 1 << 17, 1, 0, 0, 0))
    elif code == LOOKUP and body.split(b"\0")[0] == name.encode():
        # Neither the name nor the attributes may be remembered.
        reply(unique, struct.pack("=QQQQII", 2, 0, 0, 0, 0, 0) + attributes(2))
    elif code == GETATTR:
        reply(unique, struct.pack("=QII", 0, 0, 0) + attributes(node))
    elif code in (OPEN, OPENDIR):
        reply(unique, struct.pack("=QII", 0, 0, 0))
    elif code == READ:
        _, offset, size = struct.unpack_from("=QQI", body)
        reply(unique, data[offset:offset + size])
    elif code in (RELEASE, FLUSH):
        reply(unique, b"")
    elif code == LOOKUP:
        reply(unique, b"", 2)
    elif code not in (FORGET, INTERRUPT, BATCH_FORGET):
        reply(unique, b"", 38)

print("ready", flush=True)
while True:
    try:
        request = os.read(connection, 1 << 20)
    except OSError:
        break
    (code,) = struct.unpack_from("=I", request, 4)
    (node,) = struct.unpack_from("=Q", request, 16)
    if hangs and node != 1:
        held.append(request)
    else:
        serve(request)
"""


class HangingFiles:
    """The file system, mounted at the folder of ``path``."""

    def __init__(self, process: subprocess.Popen[str], path: Path) -> None:
        self._process = process
        self.path = path
        """The only file."""

    def hang(self) -> None:
        """Stops answering."""
        self._process.send_signal(signal.SIGUSR1)

    def answer(self) -> None:
        """Answers all requests that wait, and all later ones."""
        self._process.send_signal(signal.SIGUSR2)


@contextlib.contextmanager
def hanging_files(folder: Path, name: str, source: Path) -> Iterator[HangingFiles]:
    """Provides a file system at the new folder ``folder``, with the content of ``source`` in the file
    ``name``."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("/dev/fuse is missing, or may not be used")
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _SERVER, str(folder), name, str(source)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield HangingFiles(process, folder / name)
    finally:
        # When the server has ended, the Linux kernel ends all calls that wait for it.
        process.kill()
        process.communicate()
        ctypes.CDLL(None).umount2(os.fsencode(folder), _MNT_DETACH)
