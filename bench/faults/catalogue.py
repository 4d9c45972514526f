"""All faults, by cause: importing this registers them."""

from __future__ import annotations

from typing import Final

from bench.faults import cuda, devices, host, loaders, ranks
from bench.faults.fault import FAULTS

ALL: Final = FAULTS
MODULES: Final = (host, loaders, cuda, ranks, devices)
