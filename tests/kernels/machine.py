"""Boots a kernel in QEMU, without KVM, and gives what the guest told of its checks."""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.kernels.initrd import PYTHON, ROOT

QEMU: Final = "qemu-system-x86_64"
SECONDS: Final = 420.0
"""How long a guest may take before it counts as hung: several times what it takes on a busy machine."""
MEMORY_MIB: Final = 1024
CPUS: Final = 2
_LAST_LINES: Final = 60
"""Of the console, in a message."""
_KERNEL_OPTIONS: Final = (
    # A busy host does not give a guest its CPUs at once: no doubts about timers then.
    "console=ttyS0 loglevel=4 oops=panic panic=-1 no_timer_check mitigations=off random.trust_cpu=on"
    " OPENBLAS_NUM_THREADS=1"
)


@dataclass
class Told:
    """What a guest told."""

    console: str
    ended: str
    """How the machine ended; empty where it did so after its last check."""
    lines: list[dict[str, Any]] = field(default_factory=list)

    def of(self, kind: str, **facts: object) -> list[dict[str, Any]]:
        """Lines of this kind with these facts."""
        return [
            line
            for line in self.lines
            if line["kind"] == kind and all(line.get(name) == value for name, value in facts.items())
        ]

    def problem(self) -> str:
        """What to say where something is missing: how it ended, and the end of its console."""
        last = "\n".join(self.console.splitlines()[-_LAST_LINES:])
        return f"{self.ended or 'the guest ended by itself'}; the end of its console:\n{last}"


def boot(kernel: Path, initrd: Path) -> Told:
    """Run the checks on ``kernel``. Never raises because of the guest."""
    with tempfile.TemporaryDirectory(prefix="stalltop-guest-") as folder:
        console, report = Path(folder, "console"), Path(folder, "report")
        command = [
            *("nice", QEMU, "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(CPUS)),
            *("-m", str(MEMORY_MIB), "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
            *("-serial", f"file:{console}", "-serial", f"file:{report}"),
            *("-kernel", str(kernel), "-initrd", str(initrd)),
            *("-append", f"{_KERNEL_OPTIONS} rdinit={PYTHON} -- -I -S {ROOT / 'tests/kernels/guest.py'}"),
        ]
        ended = ""
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            if done.returncode:
                ended = f"{QEMU} ended with {done.returncode}: {done.stderr.strip()}"
        except subprocess.TimeoutExpired:
            ended = f"the guest did not end within {SECONDS:g} s"
        except OSError as error:
            ended = f"{QEMU} cannot be started: {error.strerror}"
        told = Told(_text(console), ended)
        for line in _text(report).splitlines():
            try:
                told.lines.append(json.loads(line))
            except ValueError:  # a machine that stopped in the middle of one
                told.ended = told.ended or f"the guest told half of a line: {line!r}"
        if not told.ended and not told.of("end"):
            told.ended = "the guest ended before its checks did"
        return told


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").replace("\r", "")
    except OSError:
        return ""
