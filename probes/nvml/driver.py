"""Reads, through NVML, figures of the NVIDIA driver about its GPUs (nvidia-ml-py bindings, module `pynvml`).

Calls fail independently: a board that cannot report its power still reports its clocks. If a call fails, only
its own figure is missing, and a note says so. If the driver itself is gone, all figures are missing.

Counters (replays, ECC errors, throttled time) are the driver's own totals here; ``reader`` turns them into
differences. Any call may hang with the driver, so ``process`` runs this module in a separate process.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, Final

from stalltop.model.call_cost import CallCost
from stalltop.model.devices.device import Device
from stalltop.model.text.clean import clean
from stalltop.probes.nvml.asking import Asking, GpuLostError, NvmlCallError, NvmlUnavailableError
from stalltop.probes.nvml.events import XidWatch
from stalltop.probes.nvml.gpu import Gpu

MOST_GPUS: Final = 256
"""Maximum number of GPUs that are read, even if the driver reports more."""
GPUS_FOLDER: Final = "/proc/driver/nvidia/gpus"
"""Folder with one entry for each GPU that the driver manages. If its entries change, NVML is opened again,
because NVML knows only the GPUs that existed when it was opened."""
LOST_SECONDS: Final = 30.0
"""If a GPU is lost, NVML is opened again after this many seconds. This is the only way to find a GPU that was
reset."""
PUT_OFF_LOOKS: Final = 10
"""Maximum number of samples by which new XIDs delay the reopening of NVML. Because of the delay, the XIDs of
a failing GPU are reported with that GPU while it is still listed. Because of the maximum, a GPU that reports
XIDs endlessly does not delay the reopening forever."""
MOST_XIDS: Final = 256
"""Maximum number of unreported XIDs that are kept for one GPU. If there are more, because the GPU was not
read for long, the newest are kept."""

__all__ = ["Nvml", "NvmlUnavailableError"]


class Nvml:
    """An open NVML session. All calls are made from one thread, and any of them may hang with the driver.

    Raises NvmlUnavailableError if there is no driver or no GPU.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        gpus_folder: str = GPUS_FOLDER,
    ) -> None:
        self._clock, self._wall_clock = clock, wall_clock
        self._gpus_folder = gpus_folder
        try:
            import pynvml
        except ImportError as error:
            raise NvmlUnavailableError("the Python package nvidia-ml-py is not installed") from error
        self._nvml: Any = pynvml
        self._ask = Asking(pynvml)
        self._xids = XidWatch(pynvml)
        self._gpus: list[Gpu] = []
        self._came: dict[str, tuple[int, ...]] = {}
        """XIDs that were not reported yet, by key of the GPU."""
        self._put_off = 0
        self._lost_since: float | None = None
        self._open = False
        self._bus: tuple[str, ...] = ()
        self.driver = ""
        self._start()

    @property
    def indexes(self) -> range:
        """Returns the indexes of the GPUs."""
        return range(len(self._gpus))

    def devices(self, without: Collection[int] = ()) -> tuple[Device, ...]:
        """Returns all GPUs except those whose index is in ``without``. Each has its XIDs since the previous
        call.

        Raises NvmlUnavailableError if the driver was unloaded. Then a new Nvml has to be opened.
        """
        self.begin()
        return tuple(self.device(index) for index in self.indexes if index not in without)

    def begin(self) -> None:
        """Begins a sample: finds which GPUs there are, and reads their XIDs. Raises NvmlUnavailableError."""
        lost_for = 0.0 if self._lost_since is None else self._clock() - self._lost_since
        came = self._xids.read()  # XIDs are read before NVML is closed, because closing it would drop them.
        for index, xids in came.items():
            who = _key(self._gpus[index])
            self._came[who] = (*self._came.get(who, ()), *xids)[-MOST_XIDS:]
        if self._on_bus() == self._bus and lost_for < LOST_SECONDS:
            return
        if came and self._put_off < PUT_OFF_LOOKS:
            self._put_off += 1
            return
        self.close()
        self._start()

    def device(self, index: int) -> Device:
        """Returns one GPU as it is now, with the XIDs that were not reported yet. Raises
        NvmlUnavailableError."""
        gpu = self._gpus[index]
        try:
            handle = self._ask("nvmlDeviceGetHandleByIndex", index)
            found = gpu.look(handle, lambda: self._xids.watch(self._ask, index, handle))
        except GpuLostError as reason:
            if self._lost_since is None:
                self._lost_since = self._clock()
            found = Device(index, gpu.uuid, gpu.name, lost=True, notes=(str(reason),))
        except NvmlCallError as reason:
            found = Device(index, gpu.uuid, gpu.name, notes=(str(reason),))
        return replace(found, xids=self._came.pop(_key(gpu), ()))

    def costs(self) -> tuple[CallCost, ...]:
        """Returns what the NVML calls cost, the most expensive first."""
        return self._ask.costs()

    def close(self) -> None:
        """Shuts NVML down; ignores a failure to do so. May be called twice."""
        for gpu in self._gpus:
            gpu.close()
        self._xids.close()
        if self._open:
            self._open = False
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()

    def _start(self) -> None:
        self._lost_since, self._put_off = None, 0
        bus_before, self._bus = self._bus, self._on_bus()
        try:
            self._ask("nvmlInit")
            self._open = True
            with contextlib.suppress(NvmlCallError):
                self.driver = clean(self._ask("nvmlSystemGetDriverVersion"))
            count = min(int(self._ask("nvmlDeviceGetCount")), MOST_GPUS)
        except NvmlCallError as none:
            self.close()
            raise NvmlUnavailableError(none.of_all or f"NVML: {none}") from none
        except (GpuLostError, NvmlUnavailableError) as reason:
            self.close()
            raise NvmlUnavailableError(str(reason)) from reason
        if not count:
            self.close()
            raise NvmlUnavailableError(f"NVIDIA driver {self.driver} is loaded, but no GPU is visible")
        # If GPUs appeared or disappeared, the other GPUs may have changed their numbers.
        as_before = self._bus == bus_before and count == len(self._gpus)
        known = {gpu.index: gpu for gpu in self._gpus if as_before}
        self._gpus = [
            Gpu(index, self._ask, clock=self._clock, wall_clock=self._wall_clock, known=known.get(index))
            for index in range(count)
        ]

    def _on_bus(self) -> tuple[str, ...]:
        """Returns a list whose content changes if GPUs appear or disappear."""
        try:
            return tuple(sorted(os.listdir(self._gpus_folder)))
        except OSError:
            return ()


def _key(gpu: Gpu) -> str:
    """Returns a key that identifies a GPU, even if the GPU cannot report its UUID."""
    return gpu.uuid or str(gpu.index)
