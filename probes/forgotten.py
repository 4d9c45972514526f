"""Describes what is missing because a table of the Linux kernel was full and dropped its oldest entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from stalltop.model.window import Missing
from stalltop.probes.layout import Evicting
from stalltop.probes.maps.raw import RawEvictions

_NAMES: Final = "names of CUDA kernels may be missing"
_DEVICES: Final = "devices of calls may be missing or wrong"
_MEANINGS: Final[Mapping[Evicting, tuple[str, str]]] = MappingProxyType(
    {
        Evicting.TOLD_PROGRAMS: ("programs that launch CUDA kernels", _NAMES),
        Evicting.REGISTERED: ("registered CUDA kernels", _NAMES),
        Evicting.LOOKED_UP: ("CUDA kernels that were looked up", _NAMES),
        Evicting.GENERATION_OF: (
            "functions that belonged to several CUDA kernels",
            "launches may be counted under an earlier name",
        ),
        Evicting.LOOKUPS: ("calls that look up a CUDA kernel", _NAMES),
        Evicting.CUDA_PROGRAMS: ("programs and their devices", _DEVICES),
        Evicting.DEVICE_OF_CONTEXT: ("contexts and their devices", _DEVICES),
        Evicting.CHOICES: ("calls that choose a device", _DEVICES),
        Evicting.OLDER_PROGRAMS: ("programs older than the tracer", _DEVICES),
    }
)
"""For each table, what its entries are, and what it means if some are missing."""


def forgotten(evictions: Iterable[RawEvictions]) -> tuple[Missing, ...]:
    """Returns what is missing because of ``evictions``."""
    return tuple(
        Missing(
            f"some {_MEANINGS[one.map][0]}",
            f"the table of {one.size:,} was full and forgot the {one.evicted:,} oldest: "
            f"{_MEANINGS[one.map][1]}",
        )
        for one in evictions
    )
