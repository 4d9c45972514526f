"""Finds out whether BPF programs and links of a process stay in the kernel."""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from pathlib import Path

from stalltop.probes.programs import bpf_calls
from tests.kernel.harness import wait_until

_GET_FD_BY_ID = {"prog": 13, "link": 30}
"""Commands of bpf() that return a descriptor of the object with a given id (enum bpf_cmd in linux/bpf.h)."""


class InKernel:
    """The BPF programs and links that the process ``pid`` holds when this object is created."""

    def __init__(self, pid: int) -> None:
        self.ids: set[tuple[str, int]] = set()
        for name in os.listdir(f"/proc/{pid}/fdinfo"):
            text = ""
            with contextlib.suppress(OSError):  # the process has just closed it
                text = Path(f"/proc/{pid}/fdinfo/{name}").read_text()
            fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
            for kind in _GET_FD_BY_ID:
                if f"{kind}_id" in fields:
                    self.ids.add((kind, int(fields[f"{kind}_id"])))

    def links(self) -> int:
        return sum(kind == "link" for kind, _ in self.ids)

    def left(self) -> set[tuple[str, int]]:
        """Return the programs and links that still exist, as (kind, id)."""
        return {known for known in self.ids if _exists(*known)}

    def until_gone(self) -> None:
        """Wait until none of the programs and links exists.

        The Linux kernel frees a link only some time after the process that held it has ended.
        """
        wait_until(lambda: not self.left(), what="the removal of all programs and links from the kernel")


def _exists(kind: str, number: int) -> bool:
    try:
        os.close(bpf_calls._bpf(_GET_FD_BY_ID[kind], struct.pack("=III", number, 0, 0)))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return False
        raise
    return True
