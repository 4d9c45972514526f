"""Labels of devices: short names that are unique on a host.

``0`` is GPU 0, ``0:3`` is MIG device 3 of GPU 0, as in NVIDIA_VISIBLE_DEVICES; '' is an unknown device.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from stalltop.model.cpu_list import cpus_of, list_of

UNKNOWN: Final = ""
_LABEL: Final = re.compile(r"([0-9]{1,9})(?::([0-9]{1,9}))?", re.ASCII)
_LAST: Final = 1 << 32
"""Sort position of texts that are not labels; greater than every index of a device."""


def label_of(gpu: int, instance: int | None = None) -> str:
    """Returns the label of the GPU ``gpu`` or, if ``instance`` is given, of the GPU's MIG device
    ``instance``."""
    return str(gpu) if instance is None else f"{gpu}:{instance}"


@lru_cache(1024)
def parts_of(label: str) -> tuple[int, int | None] | None:
    """Parses a label into (index of the GPU, index of the MIG device or None). Returns None if the text is
    not a label."""
    found = _LABEL.fullmatch(label)
    if found is None:
        return None
    return int(found[1]), None if found[2] is None else int(found[2])


def gpu_of(label: str) -> int | None:
    """Returns the index of the GPU in ``label``; None if the text is not a label."""
    parts = parts_of(label)
    return None if parts is None else parts[0]


def order_of(label: str) -> tuple[int, int, str]:
    """Sort key of labels: by index, a GPU before its MIG devices, texts that are not labels last."""
    parts = parts_of(label)
    if parts is None:
        return _LAST, -1, label
    gpu, instance = parts
    return gpu, -1 if instance is None else instance, label


def gpus_of(labels: Iterable[str]) -> tuple[int, ...]:
    """Returns the indices of the GPUs in ``labels``, ascending, each once. Texts that are not labels are left
    out."""
    return tuple(sorted({gpu for label in labels if (gpu := gpu_of(label)) is not None}))


def wanted_of(text: str) -> frozenset[str]:
    """Parses a list of labels that a user typed, such as ``0-3,5`` or ``0:3``. Parts that are neither a label
    nor a range are ignored."""
    found: set[str] = set()
    for part in text.split(","):
        name = part.strip()
        found.update([name] if parts_of(name) else map(str, cpus_of(name)))  # ranges as in CPU lists
    return frozenset(found)


def is_wanted(wanted: frozenset[str], label: str) -> bool:
    """Returns True if ``wanted`` contains ``label`` or, if ``label`` is a MIG device, the GPU of this MIG
    device."""
    return label in wanted or label.partition(":")[0] in wanted


def holds(whole: str, label: str) -> bool:
    """Returns True if ``label`` is ``whole``, or a MIG device of the GPU ``whole``."""
    return label == whole or label.startswith(f"{whole}:")


def text_of(labels: Iterable[str]) -> str:
    """Formats labels for a person: ``0``, ``0-3,6``, ``0:1,0:2``; '' if all labels are unknown."""
    known = sorted(set(labels) - {UNKNOWN}, key=order_of)
    whole = [int(label) for label in known if label.isdecimal()]
    others = [label for label in known if not label.isdecimal()]
    return ",".join([*([list_of(whole)] if whole else []), *others])
