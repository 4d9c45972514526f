"""A complete tracer with a ring buffer: loads ``native/ring.c``, probes one function, and reads an event for
every call. Runs as a process of its own: ``python ring_reader.py PATH OFFSET``.

Prints ``ready`` on stdout when the function is probed. For each line on stdin, it empties the ring buffer and
prints ``READ DROPPED``, the numbers of events read and dropped since its start. Ends when stdin ends.
"""

from __future__ import annotations

import mmap
import os
import select
import sys
import time
from pathlib import Path
from typing import Any

from stalltop.probes.programs.bpf_calls import UPROBE_MULTI, attach_uprobe_multi
from stalltop.probes.programs.recipes import SOURCE

RING_PAGES = 256
"""Size of the ring buffer in pages. With pages of 4 KiB that is 1 MiB, room for about 18 thousand events."""
_REGISTERS = {"x86_64": "(ctx)->ax", "aarch64": "(ctx)->regs[0]"}


def main(path: str, offset: int) -> None:
    """Traces the function at ``offset`` of the file at ``path`` until stdin ends."""
    os.environ["BCC_KERNEL_SOURCE"] = str(SOURCE / "headers")
    import bcc

    returned = _REGISTERS[os.uname().machine]
    module: Any = bcc.BPF(
        text=(Path(__file__).parent / "native/ring.c").read_text(),
        cflags=[f"-DRING_PAGES={RING_PAGES}", f"-DPAGE_SIZE={mmap.PAGESIZE}", f"-DRETURNED(ctx)={returned}"],
    )
    links = [
        attach_uprobe_multi(
            module.load_func(name, bcc.BPF.KPROBE, attach_type=UPROBE_MULTI).fd,
            path,
            [offset],
            [0],
            returns=returns,
        )
        for name, returns in ((b"call_returns", True), (b"call_begins", False))
    ]
    events = module["events"]
    seen: dict[tuple[int, int], list[int]] = {}

    def take(context: int, data: int, size: int) -> None:
        event = events.event(data)
        entry = seen.setdefault((event.tgid, event.operation), [0, 0, 0])
        entry[0] += 1
        entry[1] += event.ns
        entry[2] = max(entry[2], event.ns)

    events.open_ring_buffer(take)
    print("ready", flush=True)
    stdin = sys.stdin.fileno()
    while True:
        module.ring_buffer_poll(20)
        if select.select([stdin], [], [], 0)[0]:
            if not os.read(stdin, 4096):
                break
            time.sleep(0.02)  # the event of the last call may not have arrived yet
            module.ring_buffer_consume()
            read = sum(entry[0] for entry in seen.values())
            print(read, module["dropped"][0].value, flush=True)
    for link in links:
        os.close(link)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
