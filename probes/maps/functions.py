"""Tells the BPF programs which functions are traced, and how to read the arguments of these functions."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stalltop.probes import layout
from stalltop.probes.operations import DRIVER, RUNTIME, Function
from stalltop.probes.programs.bpf_calls import put


def tell_functions(map_fd: int, functions: Iterable[Function], timing: int = layout.Timing.SOME) -> None:
    """Writes ``functions`` into the map ``functions``, whose keys are attach cookies. ``timing`` is for
    sessions. Raises OSError."""
    for function in functions:
        entry = np.zeros(1, layout.FUNCTION)
        entry["operation"] = function.operation
        entry["pending"] = function.pending
        entry["size"] = function.size
        entry["a"], entry["b"], entry["c"] = function.a, function.b, function.c
        entry["direction"], entry["d"] = function.direction, function.d
        entry["object"], entry["object_at"] = function.object, function.object_at
        entry["uses_device"] = function.uses_device
        entry["timing"] = timing
        entry["waits_for_gpu"] = function.layer in (RUNTIME, DRIVER)
        put(map_fd, np.uint32(function.id).tobytes(), entry.tobytes())
