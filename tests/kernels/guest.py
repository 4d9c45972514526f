"""The first process of a guest: it mounts file systems, runs the checks in a child, and ends the machine.

The guest's kernel runs it as ``python -I -S guest.py``. It prints to the console, the first serial port; the
checks write to the second.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import traceback

SETTINGS = "/guest.json"
MOUNTS = (
    ("devtmpfs", "/dev"),
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("tracefs", "/sys/kernel/tracing"),
    ("cgroup2", "/sys/fs/cgroup"),
)
_RESTART = 0x01234567
"""LINUX_REBOOT_CMD_RESTART of linux/reboot.h. QEMU runs with -no-reboot, so it ends when the guest
restarts."""


def main() -> None:
    """Mount, run the checks in a child, wait for it, and restart the machine."""
    library = ctypes.CDLL(None, use_errno=True)
    try:
        for kind, place in MOUNTS:
            if library.mount(kind.encode(), place.encode(), kind.encode(), 0, None):
                print(f"cannot mount {place}: {os.strerror(ctypes.get_errno())}")
        child = os.fork()
        if not child:
            os._exit(_check())
        while (ended := os.wait())[0] != child:  # other processes are children that the checks left behind
            pass
        print(f"the checks ended with status {os.waitstatus_to_exitcode(ended[1])}")
    finally:
        sys.stdout.flush()
        library.reboot(_RESTART)


def _check() -> int:
    try:
        with open(SETTINGS) as file:
            settings = json.load(file)
        sys.path[:] = settings["import_path"]
        os.environ |= settings["environment"]
        from tests.kernels import checks

        checks.run(settings)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    main()
