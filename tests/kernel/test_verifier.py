"""What the verifier has to look at stays well below its limit: clang 19 needs several times what 14 does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from probes import programs
from probes.task_offsets import task_offsets

pytestmark = pytest.mark.beside

LIMIT = 1_000_000
"""Instructions that the verifier follows before it refuses a program (BPF_COMPLEXITY_LIMIT_INSNS)."""


@pytest.mark.parametrize("multi", [True, False], ids=["multi", "perf"])
def test_programs_are_simple_enough(multi: bool) -> None:
    loaded = programs.load(64, 64, multi=multi, task=task_offsets())
    try:
        names = ("entry", "returns", "ends", "execs", "switches", "wakes", "naming", "named")
        for name in (*names, "choosing", "chosen"):
            text = Path(f"/proc/self/fdinfo/{getattr(loaded, name)}").read_text()
            looked_at = re.search(r"verified_insns:\s*(\d+)", text)
            if looked_at is None:
                pytest.skip("this kernel does not tell (before Linux 5.16)")
            assert int(looked_at[1]) < LIMIT / 2, name
    finally:
        loaded.close()
