"""Libraries are found, probed once and let go of: on real processes, mounts and namespaces."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from model.errors import CannotTrace
from model.window import Missing
from probes import elf, mmap_watch, operations, probed_file
from probes import libraries as discovery
from probes.attach import Point
from probes.file_identity import FileIdentity
from probes.kernel_side import KernelSide
from probes.libraries import Libraries
from probes.mmap_watch import MmapWatch
from probes.probed_file import Probes
from probes.processes import Processes
from tests.kernel.children import Child, compile_library, until

RUNTIME = """
int cudaMalloc(void **result, unsigned long bytes) { return bytes == 13 ? 2 : 0; }
int cudaFree(void *pointer) { return 0; }
int cudaGetLastError(void) { return 0; }
"""
OTHER_RUNTIME = 'const char *version = "other";\nint before(int a) { return a * 3 + 1; }\n' + RUNTIME
DRIVER = "int cuMemAlloc_v2(unsigned long *result, unsigned long bytes) { return 0; }\n"
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
int __attribute__((noinline)) cudaMalloc(void **result, unsigned long bytes) { __asm__(""); return 0; }
int main(int count, char **arguments)
{
    char line[16];
    void *result;
    if (count > 2) { puts("ready"); fflush(stdout); fgets(line, sizeof(line), stdin); }
    for (int i = 0; i < atoi(arguments[1]); i++) cudaMalloc(&result, 64);
    if (count > 2) { puts("done"); fflush(stdout); fgets(line, sizeof(line), stdin); }
    return 0;
}
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[KernelSide]:
    kernel = KernelSide()
    yield kernel
    kernel.close()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    compile_library(RUNTIME, folder / "libcudart.so.12")
    compile_library(OTHER_RUNTIME, folder / "other" / "libcudart.so.12")
    compile_library(DRIVER, folder / "libcuda.so.1")
    compile_library(PROGRAM, folder / "program", "-no-shared")
    compile_library(PROGRAM, folder / "stripped", "-no-shared", "-s")
    return folder


@pytest.fixture(autouse=True)
def _all_in_one_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is, and whatever else runs on it."""
    monkeypatch.setattr(discovery, "START_SECONDS", 60.0)
    monkeypatch.setattr(discovery, "BUDGET_SECONDS", 60.0)


class Fake:
    """Probes that are not in place, of which some failed."""

    def __init__(self, points: Sequence[Point], failed: int = 0) -> None:
        self.failed = [(point, "no such luck") for point in points[:failed]]
        self.count = 2 * (len(points) - failed)
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Tracing:
    """Discovery with the kernel's counting behind it, for the files below ``folder`` alone.

    This host may run other CUDA programs meanwhile.
    """

    def __init__(self, kernel: KernelSide, folder: Path, processes: Processes | None = None) -> None:
        self.kernel = kernel
        self.folder = folder
        self.attached: list[str] = []
        self.counts: Counter[tuple[int, str]] = Counter()
        self.libraries = Libraries(self.attach, processes)

    def attach(self, path: str, points: Sequence[Point]) -> Probes:
        target = os.readlink(path)
        if not target.startswith(str(self.folder)):
            return Fake(points)  # not this test's: it shall not use up the kernel side's room
        self.attached.append(target.removeprefix(f"{self.folder}/"))
        return self.kernel.attach(path, points)

    def update(self) -> None:
        self.libraries.update()

    @property
    def rows(self) -> dict[tuple[str, str], tuple[int, int]]:
        """(path below the folder, layer) → (functions, processes)."""
        return {
            (row.path.removeprefix(f"{self.folder}/"), row.layer): (row.functions, row.processes)
            for row in self.libraries.library_rows()
            if row.path.startswith(str(self.folder))
        }

    def missing(self, pid: int) -> list[Missing]:
        return [missing for missing in self.libraries.missing() if missing.pid == pid]

    def calls(self, pid: int) -> dict[str, int]:
        """Calls of a process so far, by operation."""
        counts = self.kernel.read()
        for key, calls in zip(counts.keys, counts.calls, strict=True):
            if key.between_calls:
                continue
            self.counts[key.tgid, operations.operation(key.operation).name] += int(calls)
        return {name: calls for (tgid, name), calls in self.counts.items() if tgid == pid and calls}


@pytest.fixture
def tracing(kernel: KernelSide, tmp_path: Path) -> Iterator[Tracing]:
    tracing = Tracing(kernel, tmp_path)
    yield tracing
    tracing.libraries.close()


@pytest.fixture
def library(built: Path, tmp_path: Path) -> Path:
    """A file of its own for each test."""
    return Path(shutil.copy(built / "libcudart.so.12", tmp_path / "libcudart.so.12"))


def test_processes_before_and_after_the_start(tracing: Tracing, library: Path) -> None:
    with Child() as early, Child() as late:
        early.load(library)
        tracing.libraries.start()
        assert early.pid in tracing.libraries.traced_pids()
        early.call(library, "cudaMalloc", 30)
        assert late.pid not in tracing.libraries.traced_pids()
        late.load(library)
        tracing.update()  # one look suffices once it is mapped
        assert late.pid in tracing.libraries.traced_pids()
        late.call(library, "cudaMalloc", 20)
        late.call(library, "cudaFree", 5)
        late.call(library, "cudaGetLastError", 7)
        assert tracing.calls(early.pid) == {"cudaMalloc": 30}
        assert tracing.calls(late.pid) == {"cudaMalloc": 20, "cudaFree": 5}
        assert tracing.attached == ["libcudart.so.12"]
        assert tracing.rows == {("libcudart.so.12", "runtime"): (2, 2)}
    assert until(lambda: tracing.rows == {("libcudart.so.12", "runtime"): (2, 0)}, tracing.update)


def test_without_word_from_the_kernel_processes_are_looked_at(
    kernel: KernelSide, tmp_path: Path, library: Path
) -> None:
    tracing = Tracing(kernel, tmp_path, Processes(watch=None))
    try:
        tracing.libraries.start()
        with Child() as child:
            tracing.update()
            child.load(library)
            assert until(lambda: child.pid in tracing.libraries.traced_pids(), tracing.update)
            child.call(library, "cudaMalloc", 3)
            assert tracing.calls(child.pid) == {"cudaMalloc": 3}
    finally:
        tracing.libraries.close()


def test_a_copy_at_another_path_is_another_file(tracing: Tracing, library: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    copy = Path(shutil.copy(library, tmp_path / "copy" / "libcudart.so.12"))
    tracing.libraries.start()
    with Child() as one, Child() as two:
        one.load(library)
        two.load(copy)
        tracing.update()
        one.call(library, "cudaMalloc", 4)
        two.call(copy, "cudaMalloc", 6)
        assert tracing.calls(one.pid) == {"cudaMalloc": 4}
        assert tracing.calls(two.pid) == {"cudaMalloc": 6}
    assert sorted(tracing.attached) == ["copy/libcudart.so.12", "libcudart.so.12"]


MOUNTS = """
set -e
mount -t tmpfs none {root}
mkdir {root}/lower {root}/upper_a {root}/upper_b {root}/work_a {root}/work_b {root}/a {root}/b {root}/bound
cp {library} {root}/lower/libcudart.so.12
mount -t overlay overlay -o lowerdir={root}/lower,upperdir={root}/upper_a,workdir={root}/work_a {root}/a
mount -t overlay overlay -o lowerdir={root}/lower,upperdir={root}/upper_b,workdir={root}/work_b {root}/b
mount --bind {root}/lower {root}/bound
exec "$@"
"""


def test_one_file_under_overlays_and_bind_mounts_counts_once(
    tracing: Tracing, library: Path, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    script = MOUNTS.format(root=root, library=library)
    tracing.libraries.start()
    private = ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh"]
    with Child(private) as owner:
        enter = ["nsenter", "-t", str(owner.pid), "-m"]
        with Child(enter) as a, Child(enter) as b, Child(enter) as bound:
            for child, place in [(owner, "lower"), (a, "a"), (b, "b"), (bound, "bound")]:
                child.load(root / place / "libcudart.so.12")
                tracing.update()
                assert child.pid in tracing.libraries.traced_pids(), place
            for number, (child, place) in enumerate([(owner, "lower"), (a, "a"), (b, "b"), (bound, "bound")]):
                child.call(root / place / "libcudart.so.12", "cudaMalloc", 10 + number)
                assert tracing.calls(child.pid) == {"cudaMalloc": 10 + number}, place
            assert len(tracing.attached) == 1
            assert list(tracing.rows.values()) == [(2, 4)]
            # A container that changes the file gets a copy of its own, which is another file.
            a.do("load", root / "a" / "libcudart.so.12")
            with Child([*enter, "sh", "-c", f'touch {root}/b/libcudart.so.12; exec "$@"', "sh"]) as changed:
                changed.load(root / "b" / "libcudart.so.12")
                tracing.update()
                changed.call(root / "b" / "libcudart.so.12", "cudaMalloc", 9)
                assert tracing.calls(changed.pid) == {"cudaMalloc": 9}
                assert len(tracing.attached) == 2


def test_processes_in_a_pid_namespace(tracing: Tracing, library: Path) -> None:
    tracing.libraries.start()
    before = tracing.libraries.traced_pids()
    with Child(["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]) as child:
        assert child.own_pid == 1
        child.load(library)
        tracing.update()
        # Its number here is another one than its own.
        mine = {
            pid
            for pid in tracing.libraries.traced_pids() - before
            if os.path.realpath(f"/proc/{pid}/ns/pid") != os.path.realpath("/proc/self/ns/pid")
        }
        assert len(mine) == 1
        child.call(library, "cudaFree", 11)
        assert tracing.calls(mine.pop()) == {"cudaFree": 11}


def test_a_deleted_file_and_its_successor(tracing: Tracing, library: Path, built: Path) -> None:
    with Child() as old, Child() as new:
        old.load(library)
        library.unlink()
        shutil.copy(built / "other" / "libcudart.so.12", library)
        new.load(library)
        tracing.libraries.start()
        old.call(library, "cudaMalloc", 3)
        new.call(library, "cudaMalloc", 5)
        assert tracing.calls(old.pid) == {"cudaMalloc": 3}
        assert tracing.calls(new.pid) == {"cudaMalloc": 5}
        assert set(tracing.rows) == {
            ("libcudart.so.12", "runtime"),
            ("libcudart.so.12 (deleted)", "runtime"),
        }


def test_a_file_written_anew_in_place_is_looked_at_anew(tracing: Tracing, library: Path, built: Path) -> None:
    tracing.libraries.start()
    with Child() as child:
        child.load(library)
        tracing.update()
        child.call(library, "cudaMalloc", 1)
    inode = library.stat().st_ino
    library.write_bytes((built / "other" / "libcudart.so.12").read_bytes())
    assert library.stat().st_ino == inode
    tracing.update()  # the probes are gone before anybody runs into them
    assert tracing.rows == {}
    with Child() as child:
        assert until(lambda: child.do("maps_unchanged", library) == 1)  # another tracer may be slower
        child.load(library)
        tracing.update()
        child.call(library, "cudaMalloc", 8)
        assert tracing.calls(child.pid) == {"cudaMalloc": 8}
    assert len(tracing.attached) == 2


@pytest.mark.parametrize("started_first", [True, False])
def test_a_program_with_the_runtime_in_it(
    tracing: Tracing, built: Path, tmp_path: Path, started_first: bool
) -> None:
    program = shutil.copy(built / "program", tmp_path / "program")
    if not started_first:
        tracing.libraries.start()
    with subprocess.Popen(
        [program, "25", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        if started_first:
            tracing.libraries.start()
        else:
            tracing.update()
        assert process.pid in tracing.libraries.traced_pids()
        assert tracing.rows == {("program", "runtime"): (1, 1)}
        process.stdin.write(b"\n")
        assert process.stdout.readline() == b"done\n"
        assert tracing.calls(process.pid) == {"cudaMalloc": 25}
        process.stdin.write(b"\n")


def open_below(folder: Path) -> int:
    """Descriptors of this process that lead below ``folder``."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            count += os.readlink(f"/proc/self/fd/{name}").startswith(f"{folder}/")
    return count


def test_many_short_lived_processes_leave_nothing_behind(
    tracing: Tracing, built: Path, tmp_path: Path
) -> None:
    program = shutil.copy(built / "program", tmp_path / "program")
    stripped = shutil.copy(built / "stripped", tmp_path / "stripped")
    tracing.libraries.start()
    with subprocess.Popen([program, "0", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        tracing.update()
        total = Counter[str]()
        for _ in range(12):
            running = [subprocess.Popen([path, "5"]) for path in [program] * 8 + [stripped] * 2]
            tracing.update()
            for process in running:
                process.wait()
                total.update(tracing.calls(process.pid))
        assert total == {"cudaMalloc": 12 * 8 * 5}
        assert until(lambda: tracing.rows == {("program", "runtime"): (1, 1)}, tracing.update)
        assert open_below(tmp_path) == 1  # the probed file's
        assert tracing.attached == ["program"]
        holder.communicate(b"\n\n")


# A stripped program with the runtime linked in is known by a string of the runtime's; it loads the driver.
STRIPPED = r"""
#include <dlfcn.h>
#include <stdio.h>
const char *const runtime_memory = "/cudart.shm.%x.%x.%llx";
int main(int count, char **words)
{
	int (*allocate)(void **, unsigned long) = dlsym(dlopen(words[1], RTLD_NOW), "cuMemAlloc_v2");
	void *memory;
	for (puts(runtime_memory), fflush(stdout); getchar() == 10; puts("called"), fflush(stdout))
		allocate(&memory, 1);
}
"""


def test_a_program_that_names_its_runtime_calls_nowhere_is_told_once(
    tracing: Tracing, built: Path, tmp_path: Path
) -> None:
    driver = shutil.copy(built / "libcuda.so.1", tmp_path / "libcuda.so.1")
    program = tmp_path / "stripped"
    command = ["cc", "-O1", "-s", "-o", str(program), "-x", "c", "-", "-ldl"]
    subprocess.run(command, input=STRIPPED, text=True, check=True)
    tracing.libraries.start()
    two = [
        subprocess.Popen([program, driver], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        for process in two:
            assert process.stdout is not None
            assert "cudart" in process.stdout.readline()
        tracing.update()
        (missing,) = [missing for process in two for missing in tracing.missing(process.pid)]
        assert missing.what == str(program)
        assert "(2 processes)" in missing.reason
        assert "driver calls alone are counted" in missing.reason
        assert missing.remedy
        for process in two:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "called\n"
            assert tracing.calls(process.pid) == {"cuMemAlloc": 1}
    finally:
        for process in two:
            process.kill()
            process.communicate()


def test_a_program_that_uses_the_driver_alone_lacks_nothing(
    tracing: Tracing, built: Path, tmp_path: Path
) -> None:
    driver = shutil.copy(built / "libcuda.so.1", tmp_path / "libcuda.so.1")
    tracing.libraries.start()
    with Child() as child:
        child.load(driver)
        tracing.update()
        assert tracing.missing(child.pid) == []
        child.call(driver, "cuMemAlloc_v2", 2)
        assert tracing.calls(child.pid) == {"cuMemAlloc": 2}


def broken_files(built: Path) -> dict[str, tuple[bytes, str]]:
    good = (built / "libcudart.so.12").read_bytes()
    foreign = bytearray(good)
    foreign[18] = 243
    return {
        "cut": (good[:5000], "cut off"),
        "garbage": (b"no library at all" * 100, "not an ELF file"),
        "foreign": (bytes(foreign), "built for riscv"),
        "empty of functions": ((built / "libcuda.so.1").read_bytes(), "none of the traced functions"),
    }


def test_files_that_cannot_be_probed_are_told_and_not_read_again(
    tracing: Tracing, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Counter[str]()
    real = elf.read_image

    def counting(fd: int, layers: Sequence[str]) -> object:
        read[os.readlink(f"/proc/self/fd/{fd}")] += 1
        return real(fd, layers)

    monkeypatch.setattr(probed_file, "read_image", counting)
    monkeypatch.setattr(discovery, "RECHECK_SECONDS", 0.0)
    tracing.libraries.start()
    for name, (data, reason) in broken_files(built).items():
        path = tmp_path / name / "libcudart.so.12"
        path.parent.mkdir()
        path.write_bytes(data)
        with Child() as child:
            child.do("map_file", path)
            for _ in range(4):
                tracing.update()
            (missing,) = tracing.missing(child.pid)
            assert missing.what == str(path)
            assert reason in missing.reason
            assert missing.remedy
            assert child.pid not in tracing.libraries.traced_pids()
        assert read[str(path)] == 1
        assert until(lambda pid=child.pid: tracing.missing(pid) == [], tracing.update)  # type: ignore[misc]
    assert tracing.attached == []


def test_a_mapping_that_the_kernel_cannot_probe_is_told(tracing: Tracing, library: Path) -> None:
    tracing.libraries.start()
    with Child() as child:
        child.do("map_writable", library)
        tracing.update()
        (missing,) = tracing.missing(child.pid)
        assert "no probe" in missing.reason
        assert child.pid not in tracing.libraries.traced_pids()


def test_a_file_that_cannot_be_opened_is_told_and_tried_again_later(
    tracing: Tracing, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, tried = os.open, []

    def refuse(path: str, *rest: int, **more: int) -> int:
        if "/map_files/" in str(path) and os.readlink(path) == str(library):
            tried.append(path)
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, *rest, **more)

    tracing.libraries.start()
    with Child() as child, monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        child.load(library)
        assert until(lambda: tracing.missing(child.pid) != [], tracing.update)
        (missing,) = tracing.missing(child.pid)
        assert missing.what == str(library)
        assert "Permission denied" in missing.reason
        tries = len(tried)
        for _ in range(10):
            tracing.update()
        assert len(tried) == tries
        patched.undo()
        monkeypatch.setattr(discovery, "RECHECK_SECONDS", 0.0)
        tracing.update()
        assert tracing.missing(child.pid) == []
        assert child.pid in tracing.libraries.traced_pids()


def test_names_from_outside_are_made_fit_to_show(tracing: Tracing, library: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b[31m\n\u202eb"
    folder.mkdir()
    evil = folder / "libcudart.so.12"
    library.rename(evil)
    tracing.libraries.start()
    with Child() as child:
        child.load(evil)
        tracing.update()
        child.call(evil, "cudaFree", 2)
        assert tracing.calls(child.pid) == {"cudaFree": 2}
        ((path, _),) = tracing.rows
        assert path.isprintable()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.EINVAL, "Invalid argument"), "Invalid argument"),
        (CannotTrace("locked down", "unlock it"), "locked down"),
    ],
)
def test_a_refused_file_costs_that_file(library: Path, error: Exception, reason: str) -> None:
    asked = []

    def refuse(path: str, points: Sequence[Point]) -> Probes:
        asked.append(path)
        raise error

    tracing = Libraries(refuse)
    try:
        with Child() as child:
            child.load(library)
            tracing.start()
            tracing.update()
            (missing,) = [missing for missing in tracing.missing() if missing.pid == child.pid]
            assert missing.what == str(library)
            assert reason in missing.reason
            assert child.pid not in tracing.traced_pids()
            assert str(library) not in {row.path for row in tracing.library_rows()}
    finally:
        tracing.close()


@pytest.mark.parametrize(("failed", "functions"), [(1, 1), (2, 0)])
def test_a_refused_function_costs_that_function(library: Path, failed: int, functions: int) -> None:
    made: dict[str, Fake] = {}

    def partly(path: str, points: Sequence[Point]) -> Probes:
        return made.setdefault(os.readlink(path), Fake(points, failed))

    tracing = Libraries(partly)
    try:
        with Child() as child:
            child.load(library)
            tracing.start()
            reasons = [missing.reason for missing in tracing.missing() if missing.pid == child.pid]
            assert any(
                f"{failed} of 2 functions" in reason and "no such luck" in reason for reason in reasons
            )
            rows = {row.path: row.functions for row in tracing.library_rows()}
            assert rows.get(str(library), 0) == functions
            assert made[str(library)].closed is (functions == 0)
    finally:
        tracing.close()
    assert made[str(library)].closed


def test_a_forked_child_is_traced(tracing: Tracing, library: Path) -> None:
    tracing.libraries.start()
    with Child() as parent:
        parent.load(library)
        tracing.update()
        child = parent.do("fork")
        parent.call(library, "cudaMalloc", 12)  # answered by the forked child
        assert until(lambda: child in tracing.libraries.traced_pids(), tracing.update)
        assert tracing.calls(child) == {"cudaMalloc": 12}
        parent.do("end")
        parent.call(library, "cudaMalloc", 2)
        assert tracing.calls(parent.pid) == {"cudaMalloc": 2}
        assert until(lambda: child not in tracing.libraries.traced_pids(), tracing.update)
        assert parent.pid in tracing.libraries.traced_pids()


def test_a_process_without_its_first_thread_is_traced(tracing: Tracing, library: Path) -> None:
    with Child() as child:
        child.tell("end_first_thread")
        assert until(lambda: Path(f"/proc/{child.pid}/maps").read_bytes() == b"")
        child.load(library)
        tracing.libraries.start()
        assert child.pid in tracing.libraries.traced_pids()
        child.call(library, "cudaMalloc", 4)
        assert tracing.calls(child.pid) == {"cudaMalloc": 4}


def test_exec_ends_what_was_known_of_a_process(tracing: Tracing, library: Path) -> None:
    tracing.libraries.start()
    with Child() as child:
        child.load(library)
        tracing.update()
        assert child.pid in tracing.libraries.traced_pids()
        child.do("execute", sys.executable, "-I", "-S", "-c", "input()")
        assert until(lambda: child.pid not in tracing.libraries.traced_pids(), tracing.update)
        assert tracing.rows == {("libcudart.so.12", "runtime"): (2, 0)}


def test_an_unloaded_library_is_let_go_of_and_found_again(
    tracing: Tracing, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "RECHECK_SECONDS", 0.0)
    monkeypatch.setattr(discovery, "LINGER_SECONDS", 0.0)
    tracing.libraries.start()
    with Child() as child:
        for times in (1, 2):
            child.load(library)
            tracing.update()
            assert child.pid in tracing.libraries.traced_pids()
            child.call(library, "cudaMalloc", 5)
            child.do("unload", library)
            assert until(lambda: not tracing.rows, tracing.update)
            assert child.pid not in tracing.libraries.traced_pids()
            assert len(tracing.attached) == times
        assert tracing.calls(child.pid) == {"cudaMalloc": 10}


def test_closing_twice_and_updating_after_it(tracing: Tracing, library: Path) -> None:
    tracing.libraries.start()
    with Child() as child:
        child.load(library)
        tracing.libraries.close()
        tracing.libraries.close()
        tracing.update()
        assert tracing.attached == []
        child.call(library, "cudaMalloc", 3)
        assert tracing.calls(child.pid) == {}


def test_the_kernel_tells_who_maps_what(library: Path) -> None:
    watch = MmapWatch()
    try:
        watch.read()
        with Child() as child:
            child.load(library)
            changes = watch.read()
            assert not changes.lost
            assert (child.pid, os.fsencode(library)) in {
                (mapped.pid, mapped.name) for mapped in changes.mapped
            }
            # Far more bytes than the rings hold, read in time: none is torn at the end of a ring.
            for _ in range(300):
                for _ in range(10):
                    child.do("map_file", library)
                names = Counter(mapped.name for mapped in watch.read().mapped if mapped.pid == child.pid)
                assert names[os.fsencode(library)] == 10
        assert watch.read().lost is False
    finally:
        watch.close()
        watch.close()


def test_mappings_lost_by_the_kernel_are_made_up_for(
    kernel: KernelSide, tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mmap_watch, "RING_BYTES", 4096)
    tracing = Tracing(kernel, tmp_path)
    try:
        tracing.libraries.start()
        with Child() as busy, Child() as child:
            tracing.update()
            for _ in range(100):
                busy.do("map_file", library)
            busy.do("load", library)
            child.load(library)
            # The kernel says so with the next record that finds room.
            assert until(lambda: child.pid in tracing.libraries.traced_pids(), tracing.update)
    finally:
        tracing.libraries.close()


def test_files_are_told_apart_by_their_pages(library: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    os.link(library, link)
    copy = Path(shutil.copy(library, tmp_path / "copy"))
    identities = []
    for path in (library, link, copy):
        fd = os.open(path, os.O_RDONLY)
        identities.append(FileIdentity(fd))
        os.close(fd)
    one, linked, copied = identities
    assert one.same(linked)
    assert not one.same(copied)
    # Numbers that say nothing, as between two overlays: the page decides.
    linked._numbers = (0, 0)
    assert one.same(linked)
    assert linked.same(one)
    assert not linked.same(copied)
    # A file cut to nothing ends nobody.
    os.truncate(copy, 0)
    assert not one.same(copied)
    for identity in identities:
        identity.close()
        identity.close()
    assert not linked.same(one)
