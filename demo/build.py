"""Compiles the stand-in libraries and the program that calls them. Does this once for each version of the
sources and of the compiler."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from stalltop.model.errors import StalltopError

NATIVE = Path(__file__).resolve().parent / "native"
COMPILE_SECONDS = 120
"""A compiler that runs longer than this, in seconds, is assumed to hang."""

# gnu11, because later standards read `()` as `(void)`. As in the real libraries, each function must have a
# body of its own, which begins with `push %rbp`. So the options forbid the compiler to do four things: to
# omit the frame pointer, to set up the stack frame late, to turn calls into jumps, and to merge functions
# with equal bodies.
_COMMON = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-strict-prototypes")
_FRAMES = (
    "-fno-omit-frame-pointer",
    "-mno-omit-leaf-frame-pointer",
    "-fno-shrink-wrap",
    "-fno-optimize-sibling-calls",
    "-fno-ipa-icf",
)
_LIBRARY = ("-shared", "-fPIC", "-fvisibility=hidden", *_FRAMES)
_X86_64 = ("-fcf-protection=none",)
_TARGETS = (
    ("libcuda.so.1", "libraries", ("cuda.c", "standin.c"), (*_LIBRARY, "-Wl,-soname,libcuda.so.1"), ("-lm",)),
    (
        "libcudart.so.12",
        "libraries",
        ("cudart.c", "standin.c"),
        (*_LIBRARY, "-Wl,-soname,libcudart.so.12"),
        ("-lm", "-ldl"),
    ),
    (
        "libnccl.so.2",
        "libraries",
        ("nccl.c", "standin.c"),
        (*_LIBRARY, "-Wl,-soname,libnccl.so.2"),
        ("-lm", "-ldl"),
    ),
    (
        "libnvidia-ml.so.1",
        "libraries",
        ("nvml.c", "nvml_parts.c", "nvml_scenario.c"),
        ("-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1"),
        (),
    ),
    (
        "caller",
        "caller",
        ("caller.c", "calls.c", "host.c", "kernels.c", "memory.c"),
        (),
        ("-lpthread", "-ldl"),
    ),
)


@dataclass(frozen=True, slots=True)
class Built:
    """The compiled files, all in ``folder``."""

    folder: Path

    @property
    def cudart(self) -> Path:
        """Returns the path of the stand-in CUDA runtime."""
        return self.folder / "libcudart.so.12"

    @property
    def cuda(self) -> Path:
        """Returns the path of the stand-in CUDA driver library."""
        return self.folder / "libcuda.so.1"

    @property
    def nccl(self) -> Path:
        """Returns the path of the stand-in NCCL."""
        return self.folder / "libnccl.so.2"

    @property
    def nvml(self) -> Path:
        """Returns the path of the stand-in NVML (``nvml.h`` describes it)."""
        return self.folder / "libnvidia-ml.so.1"

    @property
    def caller(self) -> Path:
        """Returns the path of the program that calls the stand-in libraries (``caller.c``)."""
        return self.folder / "caller"


def compiler() -> list[str]:
    """Returns the C compiler's command: ``$CC``, cc, gcc or clang. Raises StalltopError if there is none."""
    wanted = shlex.split(os.environ.get("CC", ""))
    if wanted and shutil.which(wanted[0]):
        return wanted
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    raise StalltopError("no C compiler on this host", "apt install gcc libc6-dev")


def build(into: Path | None = None) -> Built:
    """Returns the compiled files. They are below ``into``, by default in this user's cache. Compiles them if
    they are missing.

    Several processes may call this at the same time. Raises StalltopError with the reason if the files cannot
    be compiled.
    """
    command = compiler()
    base = into if into is not None else cache_folder()
    try:
        base.mkdir(parents=True, exist_ok=True)
        finished = base / f"standin-{_fingerprint(command)}"
        if not (finished / "caller").exists():
            _make(command, base, finished)
    except OSError as error:
        raise StalltopError(f"cannot build the demo in {base}: {error.strerror}") from error
    return Built(finished)


def cache_folder() -> Path:
    """Returns a folder for files that can be made again at any time. Only this user and root can write to it.
    Raises StalltopError if there is no such folder."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    for folder in (Path(home) / "stalltop", Path(tempfile.gettempdir()) / f"stalltop-{os.geteuid()}"):
        try:
            folder.mkdir(parents=True, mode=0o700, exist_ok=True)
            found = folder.lstat()
        except OSError:
            continue
        own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
        if folder.is_absolute() and own and os.access(folder, os.W_OK | os.X_OK):
            return folder
    raise StalltopError("no folder to build the demo in", "set XDG_CACHE_HOME to a folder of your own")


def _fingerprint(command: list[str]) -> str:
    """Returns a digest of everything that determines the compiled files: sources, options, compiler and
    machine type."""
    digest = hashlib.sha256(_told(command, "--version"))
    digest.update(repr((command, _flags(command), _TARGETS)).encode())
    for source in sorted(NATIVE.rglob("*.[ch]")):
        digest.update(str(source.relative_to(NATIVE)).encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def _flags(command: list[str]) -> tuple[str, ...]:
    # $CC may be a cross compiler, so its target machine decides, not this machine.
    return _COMMON + (_X86_64 if _told(command, "-dumpmachine").startswith(b"x86_64") else ())


def _told(command: list[str], option: str) -> bytes:
    """Returns what the compiler prints for an option such as --version."""
    done = subprocess.run(
        [*command, option],
        capture_output=True,
        timeout=COMPILE_SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout


def _make(command: list[str], base: Path, finished: Path) -> None:
    """Compiles in a temporary folder, and then renames that folder to ``finished``. So ``finished`` exists
    completely or not at all."""
    work = Path(tempfile.mkdtemp(prefix=".building-", dir=base))
    flags = _flags(command)
    try:
        running = [
            (
                name,
                subprocess.Popen(
                    [*command, *flags, *options, "-o", str(work / name)]
                    + [str(NATIVE / folder / source) for source in sources]
                    + list(libraries),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                ),
            )
            for name, folder, sources, options, libraries in _TARGETS
        ]
        failed = [message for name, process in running if (message := _wait(name, process))]
        if failed:
            raise StalltopError(f"the compiler failed: {failed[0]}", "apt install gcc libc6-dev")
        work.chmod(0o755)
        # If another process has compiled the same files in the meantime, the rename fails. Then the files of
        # that process are used.
        with contextlib.suppress(OSError):
            work.rename(finished)
        if not (finished / "caller").exists():
            raise StalltopError(f"cannot put the demo's libraries into {finished}", f"remove {finished}")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _wait(name: str, process: subprocess.Popen[bytes]) -> str:
    """Waits until the compiler has ended. Returns '' if it succeeded; otherwise its first error."""
    try:
        output, _ = process.communicate(timeout=COMPILE_SECONDS)
    except BaseException:
        process.kill()
        process.wait()
        raise
    if process.returncode == 0:
        return ""
    lines = output.decode(errors="replace").splitlines()
    return next((line for line in lines if "error" in line), lines[0] if lines else f"no {name}")
