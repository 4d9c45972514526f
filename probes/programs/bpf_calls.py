"""Makes the ``bpf()`` and ``perf_event_open()`` system calls."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import struct
import weakref
from typing import Final

import numpy as np
from numpy.typing import NDArray

_NUMBERS: Final = {"x86_64": (321, 298), "aarch64": (280, 241)}
"""Numbers of bpf() and perf_event_open(), by machine (asm/unistd_64.h, asm-generic/unistd.h)."""

_BPF: Final = 0
_PERF_EVENT_OPEN: Final = 1
_NAME_BYTES: Final = 16
"""BPF_OBJ_NAME_LEN, with the zero byte at its end."""
_LOG_ALL: Final = 1
_LOG_BYTES: Final = 1 << 24
"""Size of the buffer for the log that the verifier writes for a program that it refuses. Linux kernels from
5.2 on accept a buffer of this size."""

# Values of enum bpf_cmd (linux/bpf.h).
_MAP_CREATE: Final = 0
_MAP_LOOKUP_ELEM: Final = 1
_MAP_UPDATE_ELEM: Final = 2
_MAP_DELETE_ELEM: Final = 3
_PROG_LOAD: Final = 5
_PROG_TEST_RUN: Final = 10
_OBJ_GET_INFO_BY_FD: Final = 15
_MAP_LOOKUP_BATCH: Final = 24
_RAW_TRACEPOINT_OPEN: Final = 17
_MAP_LOOKUP_AND_DELETE_BATCH: Final = 25
_MAP_DELETE_BATCH: Final = 27
_LINK_CREATE: Final = 28

_NOEXIST: Final = 1  # BPF_NOEXIST, a flag of BPF_MAP_UPDATE_ELEM
_PERF_EVENT: Final = 41  # BPF_PERF_EVENT, an enum bpf_attach_type
UPROBE_MULTI: Final = 48
"""BPF_TRACE_UPROBE_MULTI, an enum bpf_attach_type: Linux 6.6 and later."""
UPROBE_SESSION: Final = 57
"""BPF_TRACE_UPROBE_SESSION, an enum bpf_attach_type: Linux 6.13 and later."""
_UPROBE_MULTI_RETURN: Final = 1  # BPF_F_UPROBE_MULTI_RETURN

# Values of linux/perf_event.h.
_SOFTWARE_EVENT: Final = 1  # PERF_TYPE_SOFTWARE
_CPU_CLOCK: Final = 0  # PERF_COUNT_SW_CPU_CLOCK
_EXCLUDE_IDLE: Final = 1 << 7  # bit of perf_event_attr: nothing is to be done while the CPU is idle
_CLOSE_ON_EXEC: Final = 8  # PERF_FLAG_FD_CLOEXEC
_SET_PROGRAM: Final = 0x40042408  # PERF_EVENT_IOC_SET_BPF

_BATCH_COUNT_AT: Final = 32
"""Offset of ``batch.count`` in union bpf_attr. Before the call this is the number of elements to take; after
it, the number of elements taken."""
_INFO_BYTES: Final = 232
_RECURSION_MISSES_AT: Final = 208
"""Offset of ``recursion_misses`` in struct bpf_prog_info. If the Linux kernel has no such field, the value
stays 0."""

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
# Values that Python's mmap does not have (asm-generic/mman-common.h, asm-generic/mman.h).
_PROT_NONE: Final = 0
_MAP_FIXED: Final = 0x10
_MAP_NORESERVE: Final = 0x4000
_MAP_FAILED: Final = ctypes.c_void_p(-1).value


def _system_call(number: ctypes.c_long, *arguments: object) -> int:
    result = int(_LIBC.syscall(number, *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _number(call: int) -> ctypes.c_long:
    try:
        return ctypes.c_long(_NUMBERS[platform.machine()][call])
    except KeyError:
        raise OSError(
            errno.ENOSYS, f"the numbers of system calls are not known for {platform.machine()}"
        ) from None


def _bpf(command: int, attributes: bytes) -> int:
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    return _system_call(_number(_BPF), ctypes.c_int(command), buffer, ctypes.c_uint(len(attributes)))


class BpfError(OSError):
    """The Linux kernel refused a map or a program: ``what`` names it, ``log`` is the verifier's message."""

    def __init__(self, error: OSError, what: str, log: str = "") -> None:
        super().__init__(error.errno, error.strerror)
        self.what = what
        self.log = log


def create_map(
    name: str, kind: int, key_bytes: int, value_bytes: int, entries: int, flags: int, *, inner: int = 0
) -> int:
    """Returns the descriptor of a new map. ``kind`` is one of enum bpf_map_type; the elements of an array of
    maps are like the map with the descriptor ``inner``. Raises BpfError."""
    short = name.encode()[: _NAME_BYTES - 1]
    try:
        return _bpf(
            _MAP_CREATE,
            struct.pack("=IIIIIII16s", kind, key_bytes, value_bytes, entries, flags, inner, 0, short),
        )
    except OSError as error:
        raise BpfError(error, f"map {name}") from error


def map_info(fd: int) -> dict[str, int]:
    """Returns what the Linux kernel says of a map or program: its numbers by name, such as ``memlock``, the
    memory that it uses, bytes. Raises OSError."""
    with open(f"/proc/self/fdinfo/{fd}") as lines:
        words = [line.split() for line in lines]
    return {name.rstrip(":"): int(number) for name, number in words if number.isdigit()}


def load_program(name: str, kind: int, code: bytes, *, attach_type: int = 0) -> int:
    """Returns the descriptor of a program that the Linux kernel has verified and loaded.

    ``kind`` is one of enum bpf_prog_type, ``attach_type`` of enum bpf_attach_type. Raises BpfError.
    """
    try:
        return _load(name, kind, code, attach_type)
    except OSError as error:
        raise BpfError(error, f"program {name}", _why(name, kind, code, attach_type)) from error


def _load(
    name: str, kind: int, code: bytes, attach_type: int, log: ctypes.Array[ctypes.c_char] | None = None
) -> int:
    instructions = ctypes.create_string_buffer(code, len(code))
    licence = ctypes.create_string_buffer(b"GPL")
    attributes = struct.pack(
        "=IIQQIIQII16sII",
        kind,
        len(code) // 8,
        ctypes.addressof(instructions),
        ctypes.addressof(licence),
        _LOG_ALL if log is not None else 0,
        len(log) if log is not None else 0,
        ctypes.addressof(log) if log is not None else 0,
        0,
        0,
        name.encode()[: _NAME_BYTES - 1],
        0,
        attach_type,
    )
    return _bpf(_PROG_LOAD, attributes)


def _why(name: str, kind: int, code: bytes, attach_type: int) -> str:
    """Returns what the verifier logs about a program that it refuses; '' if it logs nothing."""
    log = ctypes.create_string_buffer(_LOG_BYTES)
    try:
        os.close(_load(name, kind, code, attach_type, log))
    except OSError:
        return log.value.decode(errors="replace")
    return ""


def get(map_fd: int, key: bytes, size: int) -> bytes:
    """Returns the first ``size`` bytes of one element of a map. A queue has an empty key; its element is the
    one that is taken next. Raises OSError, with ENOENT if there is no such element."""
    key_buffer = ctypes.create_string_buffer(key, len(key)) if key else None
    value_buffer = ctypes.create_string_buffer(size)
    key_at = ctypes.addressof(key_buffer) if key_buffer is not None else 0
    _bpf(_MAP_LOOKUP_ELEM, struct.pack("=IxxxxQQQ", map_fd, key_at, ctypes.addressof(value_buffer), 0))
    return value_buffer.raw


def put(map_fd: int, key: bytes, value: bytes, *, new: bool = False) -> None:
    """Writes one element of a map. A queue has an empty key. With ``new``, an element that exists is left as
    it is. Raises OSError, with EEXIST for such an element."""
    key_buffer = ctypes.create_string_buffer(key, len(key)) if key else None
    value_buffer = ctypes.create_string_buffer(value, len(value))
    key_at = ctypes.addressof(key_buffer) if key_buffer is not None else 0
    flags = _NOEXIST if new else 0
    _bpf(_MAP_UPDATE_ELEM, struct.pack("=IxxxxQQQ", map_fd, key_at, ctypes.addressof(value_buffer), flags))


def run_raw_tracepoint(program_fd: int, *arguments: int) -> None:
    """Runs a raw tracepoint's program once, now, with ``arguments`` as the tracepoint's arguments. Raises
    OSError."""
    context = ctypes.create_string_buffer(struct.pack(f"={len(arguments)}Q", *arguments), 8 * len(arguments))
    _bpf(
        _PROG_TEST_RUN,
        struct.pack("=I36xIIQQQ", program_fd, len(context), 0, ctypes.addressof(context), 0, 0),
    )


def delete(map_fd: int, key: bytes) -> None:
    """Removes one element of a hash; does nothing if there is none. Raises OSError."""
    buffer = ctypes.create_string_buffer(key, len(key))
    try:
        _bpf(_MAP_DELETE_ELEM, struct.pack("=IxxxxQQQ", map_fd, ctypes.addressof(buffer), 0, 0))
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise


def delete_all(map_fd: int, keys: NDArray[np.void]) -> None:
    """Removes many elements of a hash; skips those that are missing. Raises OSError.

    The dtype of ``keys`` must have no padding: numpy does not copy padding, but for the Linux kernel it is
    part of a key.
    """
    keys = np.ascontiguousarray(keys)
    done = 0
    while done < len(keys):
        first = keys.ctypes.data + done * keys.itemsize
        attributes = ctypes.create_string_buffer(
            struct.pack("=QQQQIIQQ", 0, 0, first, 0, len(keys) - done, map_fd, 0, 0)
        )
        size = ctypes.c_uint(len(attributes) - 1)
        try:
            _system_call(_number(_BPF), ctypes.c_int(_MAP_DELETE_BATCH), attributes, size)
            return
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
        # The call stops at the first missing key, and returns how many keys it removed before that one.
        done += int(struct.unpack_from("=I", attributes, _BATCH_COUNT_AT)[0]) + 1


def take_all(
    map_fd: int, key: np.dtype[np.void], value: np.dtype[np.void], room: int = 256
) -> tuple[NDArray[np.void], NDArray[np.void]]:
    """Returns the keys and values of all elements of a hash, and removes the elements.

    Each system call takes at most ``room`` elements, or more if the Linux kernel requires that. If a program
    on another CPU adds to an element just when the element is removed, the addition is lost. Raises OSError.
    """
    return _elements(_MAP_LOOKUP_AND_DELETE_BATCH, map_fd, key, value, room)


def look_at_all(
    map_fd: int, key: np.dtype[np.void], value: np.dtype[np.void], room: int = 4096
) -> tuple[NDArray[np.void], NDArray[np.void]]:
    """Returns the keys and values of all elements of a hash, and leaves the elements there.

    Each system call reads at most ``room`` elements. Elements that are added or removed in the meantime may
    be missed. Raises OSError.
    """
    return _elements(_MAP_LOOKUP_BATCH, map_fd, key, value, room)


def _elements(
    command: int, map_fd: int, key: np.dtype[np.void], value: np.dtype[np.void], room: int
) -> tuple[NDArray[np.void], NDArray[np.void]]:
    keys, values = [np.empty(0, key)], [np.empty(0, value)]
    place = ctypes.create_string_buffer(8)
    begun = False
    while True:
        some_keys, some_values = np.empty(room, key), np.empty(room, value)
        attributes = ctypes.create_string_buffer(
            struct.pack(
                "=QQQQIIQQ",
                ctypes.addressof(place) if begun else 0,
                ctypes.addressof(place),
                some_keys.ctypes.data,
                some_values.ctypes.data,
                room,
                map_fd,
                0,
                0,
            )
        )
        size = ctypes.c_uint(len(attributes) - 1)
        try:
            _system_call(_number(_BPF), ctypes.c_int(command), attributes, size)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                room *= 2
                continue
            if error.errno != errno.ENOENT:
                raise
            ended = True
        else:
            begun, ended = True, False
        taken = struct.unpack_from("=I", attributes, _BATCH_COUNT_AT)[0]
        keys.append(some_keys[:taken])
        values.append(some_values[:taken])
        if ended:
            return np.concatenate(keys), np.concatenate(values)


def map_memory(
    map_fd: int, size: int, *, offset: int = 0, writable: bool = True
) -> ctypes.Array[ctypes.c_ubyte]:
    """Maps ``size`` bytes, from ``offset`` on, of the memory of an array map (made with BPF_F_MMAPABLE) or of
    a ring.

    The memory stays mapped as long as the result is referred to, even if the descriptor is closed. (Python's
    own mmap would keep a copy of the descriptor.) Raises OSError.
    """
    access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    return _memory_at(_mmap(None, size, access, mmap.MAP_SHARED, map_fd, offset), size)


def reserve_memory(size: int) -> ctypes.Array[ctypes.c_ubyte]:
    """Returns ``size`` bytes of addresses, without memory, for ``map_into``. Raises OSError."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    return _memory_at(_mmap(None, size, _PROT_NONE, flags, -1, 0), size)


def map_into(
    reserved: ctypes.Array[ctypes.c_ubyte], map_fd: int, offset: int, size: int, *, of_map: int | None = None
) -> None:
    """Maps ``size`` bytes, from ``of_map`` on, of the memory of an array map to ``offset`` of ``reserved``.
    All are multiples of the page size; by default, ``of_map`` is ``offset``. Raises OSError."""
    address = ctypes.addressof(reserved) + offset
    start = offset if of_map is None else of_map
    _mmap(address, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | _MAP_FIXED, map_fd, start)


def _mmap(address: int | None, size: int, access: int, flags: int, fd: int, offset: int) -> int:
    mapped = _LIBC.mmap(
        ctypes.c_void_p(address),
        ctypes.c_size_t(size),
        ctypes.c_int(access),
        ctypes.c_int(flags),
        ctypes.c_int(fd),
        ctypes.c_long(offset),
    )
    if mapped in (None, _MAP_FAILED):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(mapped)


def _memory_at(address: int, size: int) -> ctypes.Array[ctypes.c_ubyte]:
    """Returns the mapped memory at ``address``. It is unmapped when nothing refers to the result any more."""
    memory = (ctypes.c_ubyte * size).from_address(address)
    weakref.finalize(memory, _LIBC.munmap, ctypes.c_void_p(address), ctypes.c_size_t(size)).atexit = False
    return memory


def attach_raw_tracepoint(program_fd: int, name: str) -> int:
    """Runs a program at a raw tracepoint until the returned descriptor is closed. Raises OSError."""
    buffer = ctypes.create_string_buffer(name.encode())
    return _bpf(_RAW_TRACEPOINT_OPEN, struct.pack("=QIxxxx", ctypes.addressof(buffer), program_fd))


def attach_uprobe_multi(
    program_fd: int,
    path: str,
    offsets: list[int],
    cookies: list[int],
    *,
    returns: bool,
    attach_type: int = UPROBE_MULTI,
) -> int:
    """Probes functions of a file, in all processes, until the returned descriptor is closed.

    ``offsets`` are file offsets in bytes; each has its cookie. ``attach_type`` is that of the program:
    UPROBE_MULTI or UPROBE_SESSION. Raises OSError. If a single function cannot be
    probed, the whole link fails.
    """
    name = ctypes.create_string_buffer(os.fsencode(path))
    places = (ctypes.c_uint64 * len(offsets))(*offsets)
    numbers = (ctypes.c_uint64 * len(cookies))(*cookies)
    attributes = struct.pack(
        "=IIIIQQQQIIIxxxx",
        program_fd,
        0,
        attach_type,
        0,
        ctypes.addressof(name),
        ctypes.addressof(places),
        0,
        ctypes.addressof(numbers),
        len(offsets),
        _UPROBE_MULTI_RETURN if returns else 0,
        0,
    )
    return _bpf(_LINK_CREATE, attributes)


def attach_perf_event(program_fd: int, event_fd: int, cookie: int) -> int:
    """Runs a program at a perf event until the returned descriptor is closed. This descriptor also keeps the
    event open."""
    return _bpf(_LINK_CREATE, struct.pack("=IIIIQ", program_fd, event_fd, _PERF_EVENT, 0, cookie))


def open_uprobe_event(kind: int, path: str, offset: int, *, cpu: int, config: int) -> int:
    """Returns the descriptor of a perf event for a uprobe in all processes.

    ``kind`` is the type of the Linux kernel's uprobe PMU, and ``offset`` is a file offset in bytes.
    ``config`` has the PMU's bit for return probes if the probe is a return probe. Raises OSError.
    """
    name = ctypes.create_string_buffer(os.fsencode(path))
    # struct perf_event_attr up to config2 (PERF_ATTR_SIZE_VER1): wakeup_events 1, the rest 0.
    attributes = struct.pack(
        "=IIQQQQQIIQQ", kind, 72, config, 0, 0, 0, 0, 1, 0, ctypes.addressof(name), offset
    )
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    return _system_call(
        _number(_PERF_EVENT_OPEN),
        buffer,
        ctypes.c_int(-1),
        ctypes.c_int(cpu),
        ctypes.c_int(-1),
        ctypes.c_ulong(_CLOSE_ON_EXEC),
    )


def open_clock_event(program_fd: int, cpu: int, period_ns: int) -> int:
    """Runs a program every ``period_ns`` on a CPU, unless it is idle, until the returned descriptor is
    closed. Raises OSError."""
    # struct perf_event_attr up to config2: all times count, in the Linux kernel, too.
    attributes = struct.pack(
        "=IIQQQQQIIQQ", _SOFTWARE_EVENT, 72, _CPU_CLOCK, period_ns, 0, 0, _EXCLUDE_IDLE, 1, 0, 0, 0
    )
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    event_fd = _system_call(
        _number(_PERF_EVENT_OPEN),
        buffer,
        ctypes.c_int(-1),
        ctypes.c_int(cpu),
        ctypes.c_int(-1),
        ctypes.c_ulong(_CLOSE_ON_EXEC),
    )
    try:
        fcntl.ioctl(event_fd, _SET_PROGRAM, program_fd)
    except BaseException:
        os.close(event_fd)
        raise
    return event_fd


def missed_runs(program_fd: int) -> int:
    """Returns how often the Linux kernel skipped a run of a program, since the program was loaded."""
    info = ctypes.create_string_buffer(_INFO_BYTES)
    _bpf(_OBJ_GET_INFO_BY_FD, struct.pack("=IIQ", program_fd, _INFO_BYTES, ctypes.addressof(info)))
    return int(struct.unpack_from("=Q", info, _RECURSION_MISSES_AT)[0])
