"""Compiles the kernel's programs with BCC and hands their descriptors to the process that started this one.

Run as a script in a process of its own: BCC brings a whole compiler, some 100 MB that the monitor would keep
for good, and writes its complaints straight to the terminal. Imports nothing of ours.

Takes a JSON object on stdin: ``text`` and ``cflags`` for the compiler, ``headers`` (the folder with the
kernel's), ``maps`` (names), ``probes`` and ``raw_tracepoints`` (names of programs), ``attach_type`` (of the
probes, -1 for none), and ``niceness`` where others go first. Sends a JSON object over the socket whose
descriptor is its only argument: ``names``, with one descriptor each, or ``failed`` (``import``, ``compile``
or ``load``) and ``detail``.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any


def load(request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """The answer to ``request`` and the descriptors that go with it."""
    os.environ["BCC_KERNEL_SOURCE"] = request["headers"]
    os.nice(request.get("niceness", 0))
    try:
        import bcc

        make = bcc.BPF
    except (ImportError, OSError, AttributeError) as error:
        return {"failed": "import", "detail": str(error)}, []
    try:
        module = make(text=request["text"], cflags=request["cflags"])
    except Exception as error:
        return {"failed": "compile", "detail": str(error)}, []
    names, descriptors = [], []
    try:
        for name in request["maps"]:
            descriptors.append(module.get_table(name).map_fd)
            names.append(name)
        for name in request["probes"]:
            program = module.load_func(name.encode(), make.KPROBE, attach_type=request["attach_type"])
            descriptors.append(program.fd)
            names.append(name)
        for name in request["raw_tracepoints"]:
            descriptors.append(module.load_func(name.encode(), make.RAW_TRACEPOINT).fd)
            names.append(name)
    except Exception as error:
        return {"failed": "load", "detail": str(error)}, []
    return {"names": names}, descriptors


def main() -> None:
    """Serve the one request of this process."""
    answer, descriptors = load(json.load(sys.stdin))
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        socket.send_fds(channel, [json.dumps(answer).encode()], descriptors)
    # The kernel takes everything back faster than BCC's own tidying up.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
