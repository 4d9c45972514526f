"""Calls the resource manager of the NVIDIA driver directly, through the ioctls of ``/dev/nvidiactl``, for
what NVML does not offer.

Structures, numbers and rules are those of NVIDIA's open kernel modules, as they are from driver 535 on:
nvos.h (NVOS33, NVOS54 and NVOS64) and the headers of the classes in src/common/sdk/nvidia/inc, nv_escape.h in
src/nvidia/arch/nvalloc/unix/include. Some structures have grown at the end since then.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
import struct
from typing import Final

CONTROL_FILE: Final = "/dev/nvidiactl"
_MAGIC: Final = ord("F")
_CONTROL, _ALLOC, _MAP_MEMORY, _REGISTER_FILE = 0x2A, 0x2B, 0x4E, 201
_CLIENT, _DEVICE, _SUBDEVICE, _SYSTEM_MEMORY = 0x41, 0x80, 0x2080, 0x3E
_ATTACHED_GPUS, _ID_INFO, _PCI_INFO = 0x201, 0x205, 0x21B
_TIME: Final = 0x20800403
_NO_GPU: Final = 0xFFFFFFFF
_MOST_GPUS: Final = 32
"""NV0000_CTRL_GPU_MAX_ATTACHED_GPUS."""
_PAGE_BYTES: Final = 4096
_MOST_PARAMETER_BYTES: Final = 4096
"""Room for the parameters of an object: more than any class has, as the driver reads and writes as many bytes
as its own version of the structure has."""
_HOST_MEMORY: Final = 5 << 29 | 1 << 27 | 1 << 25
"""NVOS32_ATTR: coherency write-back, pages that need not be contiguous, in the host's memory."""
_READ_ONLY_FOR_USERS: Final = 1 << 22 | 1 << 2
"""Flags of NVOS32_ATTR2: processes can only read the memory, and the GPU does not cache it."""
_MAP_READ_ONLY: Final = 1
_NO_PERMISSION: Final = 0x1B
_UNSUPPORTED: Final = (0x22, 0x24, 0x56)
"""Values of NV_STATUS (nvstatuscodes.h): unknown class, unknown command, not supported."""


class DriverCallError(Exception):
    """The driver refused a call; the text says why."""

    def __init__(self, reason: str, *, unsupported: bool = False) -> None:
        super().__init__(reason)
        self.unsupported = unsupported
        """Whether this board or driver does not support the call, which is not a fault."""


class ResourceManager:
    """A client of the resource manager, with one GPU. Everything that it made is freed when it is closed.

    Raises DriverCallError if the driver refuses a call, and OSError if its files cannot be opened.
    """

    def __init__(self, minor: int, pci_bus_id: str) -> None:
        """Opens the GPU ``/dev/nvidia<minor>`` at ``pci_bus_id``, such as ``00000000:1B:00.0``."""
        self._files: list[int] = []
        self._maps: list[mmap.mmap] = []
        try:
            self._control_file = self._open(CONTROL_FILE)
            gpu_file = self._open(f"/dev/nvidia{minor}")
            self._ioctl(_REGISTER_FILE, bytearray(struct.pack("i", self._control_file)), gpu_file)
            self.client = 0
            self.client = self.make(_CLIENT, 0)
            number = self._device_number(pci_bus_id)
            # NV0080_ALLOC_PARAMETERS
            device = struct.pack("5I4x3QI4x", number, self.client, 0, 0, 0, 0, 0, 0, 0)
            self._device = self.make(_DEVICE, self.client, device)
            self.subdevice = self.make(_SUBDEVICE, self._device, struct.pack("I", 0))
        except BaseException:
            self.close()
            raise

    def make(self, kind: int, parent: int, parameters: bytes = b"") -> int:
        """Makes an object of class ``kind``; returns its handle."""
        given = ctypes.create_string_buffer(parameters, _MOST_PARAMETER_BYTES)
        address = ctypes.addressof(given) if parameters else 0
        # NVOS64_PARAMETERS, without a size of the parameters
        call = bytearray(struct.pack("4I2Q3I4x", self.client, parent, 0, kind, address, 0, 0, 0, 0))
        self._ioctl(_ALLOC, call)
        found = struct.unpack("4I2Q3I4x", call)
        _check(found[8])
        return int(found[2])

    def control(self, of: int, command: int, parameters: bytes = b"") -> bytes:
        """Sends ``command`` to the object ``of``; returns the parameters as the driver left them."""
        given = ctypes.create_string_buffer(parameters, len(parameters))
        address = ctypes.addressof(given) if parameters else 0
        # NVOS54_PARAMETERS
        call = bytearray(struct.pack("4IQ2I", self.client, of, command, 0, address, len(parameters), 0))
        self._ioctl(_CONTROL, call)
        _check(struct.unpack("4IQ2I", call)[6])
        return given.raw

    def memory(self, size_bytes: int) -> tuple[int, mmap.mmap]:
        """Makes memory of the host that the driver writes and this process reads; returns its handle, and the
        memory as it is mapped here."""
        size = -(-size_bytes // _PAGE_BYTES) * _PAGE_BYTES
        # NV_MEMORY_ALLOCATION_PARAMS
        wanted = struct.pack(
            "5Ii5I4x7Q4Ii4x",
            *(self.client, 0, 0, 0, 0, 0, _HOST_MEMORY, _READ_ONLY_FOR_USERS, 0, 0, 0),
            *(0, 0, size, _PAGE_BYTES, 0, size - 1, 0, 0, 0, 0, 0, 0),
        )
        handle = self.make(_SYSTEM_MEMORY, self._device, wanted)
        file = self._open(CONTROL_FILE)
        # nv_ioctl_nvos33_parameters_with_fd
        call = bytearray(
            struct.pack("3I4x3Q2Ii4x", self.client, self._device, handle, 0, size, 0, 0, _MAP_READ_ONLY, file)
        )
        self._ioctl(_MAP_MEMORY, call)
        _check(struct.unpack("3I4x3Q2Ii4x", call)[6])
        mapped = mmap.mmap(file, size, mmap.MAP_SHARED, mmap.PROT_READ)
        self._maps.append(mapped)
        return handle, mapped

    def time_ns(self) -> int:
        """Returns the time of the GPU's clock, ns."""
        return int(struct.unpack("Q", self.control(self.subdevice, _TIME, bytes(8)))[0])

    def close(self) -> None:
        """Frees all objects. May be called twice."""
        for mapped in self._maps:
            with contextlib.suppress(BufferError):
                mapped.close()
        for file in self._files:
            os.close(file)
        self._maps, self._files = [], []

    def _open(self, path: str) -> int:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._files.append(file)
        return file

    def _ioctl(self, number: int, call: bytearray, file: int | None = None) -> None:
        request = 3 << 30 | len(call) << 16 | _MAGIC << 8 | number  # _IOWR
        fcntl.ioctl(self._control_file if file is None else file, request, call, True)

    def _device_number(self, pci_bus_id: str) -> int:
        """Returns the resource manager's number of the GPU at ``pci_bus_id``, which may differ from NVML's
        and from that of the device file."""
        domain, bus, slot = (int(part, 16) for part in pci_bus_id.partition(".")[0].split(":"))
        attached = self.control(self.client, _ATTACHED_GPUS, bytes(4 * _MOST_GPUS))
        for gpu in struct.unpack(f"{_MOST_GPUS}I", attached):
            if gpu == _NO_GPU:
                continue
            place = self.control(self.client, _PCI_INFO, struct.pack("2I2H", gpu, 0, 0, 0))
            if struct.unpack("2I2H", place)[1:] == (domain, bus, slot):
                told = self.control(self.client, _ID_INFO, struct.pack("7Ii", gpu, *([0] * 7)))
                return int(struct.unpack("7Ii", told)[2])
        raise DriverCallError(f"the driver has no GPU at {pci_bus_id}", unsupported=True)


def _check(status: int) -> None:
    """Raises DriverCallError if ``status``, the driver's answer, is an error."""
    if status == _NO_PERMISSION:
        raise DriverCallError("no permission")
    if status in _UNSUPPORTED:
        raise DriverCallError("not supported", unsupported=True)
    if status:
        raise DriverCallError(f"the driver refuses it (status {status:#x})")
