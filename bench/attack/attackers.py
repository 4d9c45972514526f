"""What strangers may try against the tracer of their host: ``attackers.py ATTACK FOLDER SECONDS``.

This is a program of its own, which runs as an unprivileged user or as root of a container. It uses only the
standard library, because it runs outside of stalltop's environment. FOLDER belongs to the attacker and has a
library ``libcudart.so.12`` whose functions do nothing. Each attack goes on for SECONDS, or takes what it can
and holds that until then.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import mmap
import os
import resource
import shutil
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

LIBRARY = "libcudart.so.12"
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x1b[31m<b>&\u202e"
"""What a name contains that should take over a terminal or a page."""
CALLS = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventRecord", "cudaEventQuery")
SECTION = struct.Struct("<IIQQQQIIQQ")

folder = Path()
until = 0.0


def going() -> bool:
    """Returns whether the attack goes on."""
    return time.monotonic() < until


def hold() -> None:
    """Waits until the end."""
    time.sleep(max(until - time.monotonic(), 0.0))


def loaded(path: Path | None = None) -> ctypes.CDLL:
    """Returns the library with the CUDA functions."""
    return ctypes.CDLL(str(path or folder / LIBRARY))


def mapped(path: Path, bytes_: int = 4096, offset: int = 0) -> mmap.mmap:
    """Maps a file as code, as a program does that has loaded it."""
    with path.open("rb") as file:
        return mmap.mmap(
            file.fileno(), bytes_, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC, offset=offset
        )


def forked(work: Callable[[], object]) -> int:
    """Runs ``work`` in a child; returns its PID."""
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            work()
        os._exit(0)
    return child


def rows() -> None:
    """Calls on 250 devices, so that each call wants a row of its own."""
    cuda = loaded()
    for device in itertools.cycle(range(250)):
        cuda.cudaSetDevice(device)
        for name in CALLS:
            getattr(cuda, name)()
        if not going():
            return


def rows_of_many() -> None:
    """The same in 40 processes."""
    children = [forked(rows) for _ in range(40)]
    for child in children:
        os.waitpid(child, 0)


def threads() -> None:
    """Makes a call in each of 3,000 threads, which stay."""
    cuda = loaded()
    threading.stack_size(1 << 16)

    def work() -> None:
        cuda.cudaDeviceSynchronize()
        hold()

    with contextlib.suppress(RuntimeError):
        for _ in range(3_000):
            threading.Thread(target=work, daemon=True).start()
    hold()


def kernels() -> None:
    """Launches a million CUDA kernels, each another function."""
    cuda = loaded()
    for address in itertools.count(4096):
        cuda.cudaLaunchKernel(ctypes.c_void_p(address))
        if not going():
            return


def memory() -> None:
    """Allocates device memory in four processes, and frees none."""
    cuda = loaded()

    def work() -> None:
        for address in itertools.count(4096):
            cuda.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_ulong(address))
            if not going():
                return

    children = [forked(work) for _ in range(4)]
    for child in children:
        os.waitpid(child, 0)


def charges() -> None:
    """Has 307 threads, each of which wakes all others: each pair of threads wants a record of its charges."""
    cuda = loaded()
    threading.stack_size(1 << 16)
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    ends = [os.pipe() for _ in range(307)]
    steps = itertools.cycle(length for length in range(1, len(ends)) for _ in ends)

    def work(own: int) -> None:
        cuda.cudaDeviceSynchronize()
        while os.read(ends[own][0], 1):
            os.write(ends[(own + next(steps)) % len(ends)][1], b"x")

    for number in range(len(ends)):
        threading.Thread(target=work, args=(number,), daemon=True).start()
    os.write(ends[0][1], b"x")
    hold()


def short_lived() -> None:
    """Forks as fast as it can; each child calls on several devices, and ends."""
    cuda = loaded()

    def work() -> None:
        for device in range(16):
            cuda.cudaSetDevice(device)
            cuda.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_ulong(4096))

    while going():
        os.waitpid(forked(work), 0)


def killed_in_calls() -> None:
    """Kills children inside calls, and in threads whose main thread has ended."""
    cuda = loaded()

    def work() -> None:
        for _ in range(8):
            threading.Thread(target=lambda: [cuda.cudaDeviceSynchronize() for _ in iter(int, 1)]).start()
        time.sleep(60.0)

    while going():
        child = forked(work)
        time.sleep(0.02)
        os.kill(child, 9)
        os.waitpid(child, 0)


def programs() -> None:
    """Replaces its program as fast as it can, with the library mapped."""

    def work() -> None:
        mapped(folder / LIBRARY)
        os.execv("/bin/true", ["true"])

    while going():
        children = [forked(work) for _ in range(8)]
        for child in children:
            os.waitpid(child, 0)


def symbol_tables() -> None:
    """Maps libraries with 40 symbol tables of 100,000 names, with a table of 16 million symbols, and with an
    endless name."""
    held = []
    for number, (tables, symbols) in enumerate(((40, 100_000), (60_000, 4), (1, 4_000_000), (1, 16_000_000))):
        place = folder / f"tables-{number}"
        place.mkdir(exist_ok=True)
        path = place / LIBRARY
        with contextlib.suppress(OSError, MemoryError):
            _write_tables(path, tables, symbols)
            held.append(mapped(path))
    hold()


def _write_tables(path: Path, tables: int, symbols: int) -> None:
    header = bytearray(64 + 56)
    header[:7] = b"\x7fELF\x02\x01\x01"
    struct.pack_into("<IIQQQQQQ", header, 64, 1, 5, 0, 0, 0, 8192, 8192, 4096)
    names = b"\0" + b"cudaMalloc" * 100_000 + b"\0"
    symbols_at = len(header) + len(names)
    headers_at = symbols_at + 24 * symbols
    struct.pack_into(
        "<HHIQQQIHHHHHH", header, 16, 3, 62, 1, 0, 64, headers_at, 0, 64, 56, 1, 64, 2 + tables, 0
    )
    one = struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 0x1000, 16) * 4096
    with path.open("wb") as file:
        file.write(bytes(header) + names)
        for _ in range(-(-symbols // 4096)):
            file.write(one)
        file.truncate(headers_at)
        file.seek(headers_at)
        file.write(bytes(64) + SECTION.pack(0, 3, 0, 0, len(header), len(names), 0, 0, 1, 0))
        file.write(SECTION.pack(0, 2, 0, 0, symbols_at, 24 * symbols, 1, 0, 8, 24) * tables)


def odd_files() -> None:
    """Maps files under names of libraries: cut, random bytes, headers without an end, a sparse terabyte."""
    whole = (folder / LIBRARY).read_bytes()
    held: list[mmap.mmap] = []
    for number, content in enumerate(
        (whole[:100], whole[:4096], b"\x7fELF" * 2048, os.urandom(1 << 16), b"")
    ):
        place = folder / f"odd-{number}"
        place.mkdir(exist_ok=True)
        (place / LIBRARY).write_bytes(content or bytes(4096))
        held.append(mapped(place / LIBRARY, min(len(content) or 4096, 4096)))
    sparse = folder / "sparse"
    sparse.mkdir(exist_ok=True)
    with contextlib.suppress(OSError):
        (sparse / LIBRARY).write_bytes(whole)
        os.truncate(sparse / LIBRARY, 1 << 40)
        held.append(mapped(sparse / LIBRARY))
    hold()


def mappings() -> None:
    """Has as many mappings of a library as the Linux kernel allows: 65,530."""
    held: list[mmap.mmap] = []
    with contextlib.suppress(OSError):
        held.extend(mapped(folder / LIBRARY, 4096, 4096 * (number % 2)) for number in range(65_000))
    hold()


def many_libraries() -> None:
    """Maps 400 libraries, each a file of its own, and calls functions of all."""
    for number in range(400):
        place = folder / f"many-{number}"
        place.mkdir(exist_ok=True)
        shutil.copy(folder / LIBRARY, place / LIBRARY)
        loaded(place / LIBRARY).cudaDeviceSynchronize()
        if not going():
            break
    hold()


def replaced_files() -> None:
    """Maps libraries, then puts a FIFO, a link to a device, or nothing in their places. If somebody opens the
    FIFO, this writes the file ``opened``."""
    held: list[mmap.mmap] = []
    for number in itertools.count():
        place = folder / f"replaced-{number % 50}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        path = place / LIBRARY
        shutil.copy(folder / LIBRARY, path)
        held = [*held[-200:], mapped(path)]
        path.unlink()
        kind = number % 4
        if kind == 0:
            os.mkfifo(path, 0o600)
        elif kind == 1:
            path.symlink_to("/dev/watchdog")
        elif kind == 2:
            path.symlink_to("/proc/self/mem")
        for fifo in folder.glob(f"replaced-*/{LIBRARY}"):
            with contextlib.suppress(OSError):
                if fifo.is_fifo():
                    os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))  # works only if there is a reader
                    (folder / "opened").touch()
        time.sleep(0.02)
        if not going():
            return


def names() -> None:
    """Has names with escape sequences and markup: its process, threads, library, folder and variables."""
    ctypes.CDLL(None).prctl(15, ESCAPES.encode()[:15])
    os.environ["CUDA_VISIBLE_DEVICES"] = ESCAPES * 1000
    place = folder / ESCAPES.replace("/", "|")
    place.mkdir(exist_ok=True)
    shutil.copy(folder / LIBRARY, place / LIBRARY)
    cuda = loaded(place / LIBRARY)
    shutil.copy(folder / LIBRARY, place / f"libcudart.so.12.{ESCAPES}\n\n".replace("/", "|"))
    held = [mapped(path) for path in place.iterdir()]
    while going() and held:
        cuda.cudaDeviceSynchronize()
        time.sleep(0.001)


def file_system() -> None:
    """Mounts a file system, maps a library of it, and then answers no more. Needs a mount namespace."""
    place = folder / "mounted"
    place.mkdir(exist_ok=True)
    connection = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={connection},rootmode=40755,user_id=0,group_id=0,allow_other"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"hanging", os.fsencode(place), b"fuse", 0, options.encode()):
        raise OSError(ctypes.get_errno(), "mount")
    data = (folder / LIBRARY).read_bytes()
    threading.Thread(target=_serve, args=(connection, data), daemon=True).start()
    held = mapped(place / LIBRARY)
    for _ in _page_faults(held):
        pass
    hanging.set()
    while going():  # Each new process has the hanging file mapped.
        child = forked(hold)
        time.sleep(0.5)
        os.kill(child, 9)
        os.waitpid(child, 0)


hanging = threading.Event()


def _page_faults(content: mmap.mmap) -> Iterator[int]:
    for at in range(0, len(content), 4096):
        yield content[at]


def _serve(connection: int, data: bytes) -> None:
    """Serves one file by FUSE (include/uapi/linux/fuse.h), until ``hanging`` is set."""

    def attributes(node: int) -> bytes:
        size, mode = (0, 0o40755) if node == 1 else (len(data), 0o100755)
        return struct.pack("=6Q10I", node, size, size // 512, 0, 10**9, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def reply(unique: int, content: bytes, error: int = 0) -> None:
        with contextlib.suppress(OSError):
            os.write(connection, struct.pack("=IiQ", 16 + len(content), -error, unique) + content)

    while True:
        request = os.read(connection, 1 << 20)
        if hanging.is_set():
            continue
        _, code, unique, node = struct.unpack_from("=IIQQ", request)
        body = request[40:]
        if code == 26:  # INIT
            reply(unique, struct.pack("=IIIIHHIIHHI28x", 7, 31, 1 << 17, 0, 12, 9, 1 << 17, 1, 0, 0, 0))
        elif code == 1 and body.split(b"\0")[0] == LIBRARY.encode():  # LOOKUP
            reply(unique, struct.pack("=QQQQII", 2, 0, 0, 0, 0, 0) + attributes(2))
        elif code == 3:  # GETATTR
            reply(unique, struct.pack("=QII", 0, 0, 0) + attributes(node))
        elif code in (14, 27):  # OPEN, OPENDIR
            reply(unique, struct.pack("=QII", 0, 0, 0))
        elif code == 15:  # READ
            _, offset, size = struct.unpack_from("=QQI", body)
            reply(unique, data[offset : offset + size])
        elif code in (17, 25):  # RELEASE, FLUSH
            reply(unique, b"")
        elif code == 1:
            reply(unique, b"", 2)
        elif code not in (2, 36, 42):  # FORGET, INTERRUPT, BATCH_FORGET have no answer
            reply(unique, b"", 38)


def connections() -> None:
    """Floods the tracer's socket: with connections, half a message, garbage, and clients that do not read."""
    path = os.environ["TRACER_SOCKET"]
    hello = b'H\0\0\0\x12{"versions":[1,1]}'
    contents = (
        b"",
        hello[:3],
        b"H\xff\xff\xff\xff",
        os.urandom(4096),
        hello,
        hello + b"P\0\0\0\x10{" + b"[" * 15,
    )
    held: list[socket.socket] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    for number in itertools.count():
        link = socket.socket(socket.AF_UNIX)
        link.setblocking(False)
        with contextlib.suppress(OSError):
            link.connect(path)
            link.send(contents[number % len(contents)])
        held.append(link)
        if len(held) > 800:
            for old in held[:400]:
                old.close()
            del held[:400]
        if number % 50 == 0:
            time.sleep(0.01)
        if not going():
            return


def containers() -> None:
    """Makes cgroups with the names of containers in its own cgroup, one after the other, and a process with
    calls in each."""
    root = Path(os.environ["OWN_CGROUP"])
    cuda = loaded()

    def work(place: Path) -> None:
        (place / "cgroup.procs").write_text(str(os.getpid()))
        for _ in range(100):
            cuda.cudaDeviceSynchronize()

    for number in itertools.count():
        place = root / f"docker-{number:064x}.scope"
        place.mkdir(exist_ok=True)
        os.waitpid(forked(lambda: work(place)), 0)  # noqa: B023
        with contextlib.suppress(OSError):
            place.rmdir()
        if not going():
            return


ATTACKS: dict[str, Callable[[], None]] = {
    attack.__name__: attack
    for attack in (
        *(rows, rows_of_many, threads, kernels, memory, charges, short_lived, killed_in_calls),
        *(programs, symbol_tables, odd_files, mappings, many_libraries, replaced_files, names, file_system),
        *(connections, containers),
    )
}
"""All attacks, by name."""


def main() -> None:
    """Makes one attack."""
    global folder, until
    name, place, seconds = sys.argv[1:]
    folder, until = Path(place), time.monotonic() + float(seconds)
    sys.setrecursionlimit(10_000)
    ATTACKS[name]()


if __name__ == "__main__":
    main()
