"""Tests that the stand-in libraries look like the real ones to a tracer, and that the sample program (caller)
counts its calls correctly."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from stalltop.demo import build as building
from stalltop.demo.build import Built, build, cache_folder
from stalltop.demo.caller import Caller, CallerError
from stalltop.demo.latencies import Latency, write_table
from stalltop.model.errors import StalltopError
from stalltop.model.histograms.hdr import index_of
from stalltop.probes import operations
from tests.kernel.harness import wait_until


@pytest.fixture
def caller(built: Built) -> Iterator[Caller]:
    with Caller(built) as one:
        yield one


def functions_of(library: Path) -> dict[str, bytes]:
    """Returns the exported functions with their first 16 bytes."""
    found = {}
    with library.open("rb") as stream:
        elf = ELFFile(stream)
        text: Any = elf.get_section_by_name(".text")
        dynsym: Any = elf.get_section_by_name(".dynsym")
        code, base = text.data(), text["sh_addr"]
        for symbol in dynsym.iter_symbols():
            if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] != "SHN_UNDEF":
                place = symbol["st_value"] - base
                found[symbol.name] = code[place : place + 16]
    return found


def test_every_export_except_helpers_is_a_traced_function(built: Built) -> None:
    """No two functions share code, because each probe must belong to exactly one name."""
    helpers = {"cuDeviceGet", "cuCtxGetCurrent", "cuDeviceTotalMem", "cuMemGetInfo"}
    helpers |= {f"{name}_v2" for name in helpers} | {
        "cudaGetLastError",
        "cudaGetDevice",
        "__cudaLaunchKernel",
        "__cudaRegisterFatBinary",
        "__cudaRegisterFatBinaryEnd",
        "cuModuleUnload",
    }
    for library, layer, least in (
        (built.cuda, operations.DRIVER, 90),
        (built.cudart, operations.RUNTIME, 40),
        (built.nccl, operations.NCCL, 12),
    ):
        names = set(functions_of(library)) - helpers
        assert len(names) >= least
        assert [name for name in names if operations.match(name, layer) is None] == []
        with library.open("rb") as stream:
            dynsym: Any = ELFFile(stream).get_section_by_name(".dynsym")
            places = [symbol["st_value"] for symbol in dynsym.iter_symbols() if symbol.name in names]
        assert len(set(places)) == len(places) == len(names)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the first instructions are those of x86-64")
def test_first_instructions_are_those_of_the_real_libraries(built: Built) -> None:
    cuda = functions_of(built.cuda)
    for name, code in cuda.items():
        assert code[:2] == b"\x81\x3d", name  # cmpl $imm32, off(%rip)
        assert code[6:10] == (0x321CBA00).to_bytes(4, "little"), name
        assert code[10] == 0x74, name  # je, ten bytes in
    cudart = functions_of(built.cudart)
    assert cudart.pop("__cudaLaunchKernel")[0] in (0xE9, 0xEB, 0xFF)  # jmp
    assert {name for name, code in cudart.items() if code[0] != 0x55} == set()  # push %rbp


def test_a_build_is_cached_and_safe_in_parallel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "_TARGETS", building._TARGETS[-1:])
    results: list[Built] = []
    builders = [threading.Thread(target=lambda: results.append(build(tmp_path))) for _ in range(2)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()
    assert len(results) == 2
    assert len(set(results)) == 1
    assert [path.name for path in tmp_path.iterdir()] == [results[0].folder.name]  # no unfinished build
    made = results[0].caller.stat().st_mtime_ns
    assert build(tmp_path).caller.stat().st_mtime_ns == made
    monkeypatch.setattr(building, "_COMMON", (*building._COMMON, "-DCHANGED"))
    assert build(tmp_path).folder != results[0].folder


def test_a_missing_or_failing_compiler_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StalltopError, match="no C compiler") as told:
        build(tmp_path / "cache")
    assert "apt install gcc" in told.value.remedy
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho 'stdio.h: fatal error: no such file'\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(StalltopError, match="fatal error: no such file"):
        build(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_the_cache_folder_belongs_to_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    home = tmp_path / "home"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    assert cache_folder() == home / "stalltop"
    # Nothing is run from a folder that others can write to.
    (home / "stalltop").chmod(0o777)
    assert cache_folder() == tmp_path / f"stalltop-{os.geteuid()}"
    cache_folder().rmdir()
    cache_folder_link = tmp_path / f"stalltop-{os.geteuid()}"
    cache_folder_link.symlink_to(home)
    with pytest.raises(StalltopError, match="no folder"):
        cache_folder()


def test_the_caller_counts_over_threads_sizes_and_variants(caller: Caller) -> None:
    caller.run(
        "cudaLaunchKernel_ptsz:1000 cudaMemcpyAsync:3:4096:1 cudaMemcpy2D:2:100x7:2 "
        "cudaMemcpy3DAsync:1:10x20x3:1 ncclAllReduce:2:1000:7 ncclBcast:1:10:8 cuMemsetD32_v2:1:9 "
        "cuMemAllocPitch_v2:1:64x3 cuMemcpy2D_v2:1:5x6",
        threads=4,
        cycles=5,
    )
    made = caller.report()
    assert {symbol: (one.calls, one.bytes) for symbol, one in made.items()} == {
        "cudaLaunchKernel_ptsz": (20_000, 0),
        "cudaMemcpyAsync": (60, 60 * 4096),
        "cudaMemcpy2D": (40, 40 * 700),
        "cudaMemcpy3DAsync": (20, 20 * 600),
        "ncclAllReduce": (40, 40 * 4000),
        "ncclBcast": (20, 20 * 80),
        "cuMemsetD32_v2": (20, 20 * 36),
        "cuMemAllocPitch_v2": (20, 20 * 192),
        "cuMemcpy2D_v2": (20, 20 * 30),
    }
    for one in made.values():
        assert one.errors == 0
        assert int(one.histogram().totals()[0]) == one.calls
        assert one.max_ns <= one.total_ns


def test_untimed_calls_child_processes_and_background_calls_are_counted(caller: Caller) -> None:
    assert caller.run("cuLaunchKernel:1000", threads=2, cycles=3, timed=False) > 0
    caller.do("children 5 2 cuLaunchKernel:10 cuMemAlloc_v2:1:64")
    caller.start("cuCtxSynchronize:10 ~100", threads=2, cycles=7)
    caller.do("wait")
    caller.start("cuStreamSynchronize ~100")
    wait_until(lambda: caller.report()["cuStreamSynchronize"].calls > 2)
    caller.stop()
    made = caller.report()
    assert made["cuLaunchKernel"].calls == 6000 + 100
    assert made["cuLaunchKernel"].counters == {}
    assert made["cuMemAlloc_v2"].bytes == 640
    assert made["cuCtxSynchronize"].calls == 140
    assert made["cuStreamSynchronize"].calls > 2
    assert caller.report()["cuStreamSynchronize"].calls == made["cuStreamSynchronize"].calls


def test_latencies_from_the_table_are_applied(built: Built, tmp_path: Path) -> None:
    us = 1e3
    table = write_table(
        {
            "cuLaunchKernel": Latency("spin", "fixed", 20 * us),
            "cuStreamSynchronize": Latency("futex", "uniform", 200 * us, 400 * us),
            "cuEventSynchronize": Latency("poll", "lognormal", 100 * us, 0.5),
            "cuCtxSynchronize": Latency("sleep", "fixed", 50 * us, spike_share=0.5, spike_factor=20),
            "cuMemAlloc": Latency(error_share=0.3, error_code=2),
            "cudaMalloc": Latency("spin", "fixed", 5 * us),
        },
        tmp_path / "table",
    )
    with Caller(built, table=table) as caller:
        caller.run(
            "cuLaunchKernel:200 cuStreamSynchronize:200 cuEventSynchronize:400 cuCtxSynchronize:60 "
            "cudaMalloc:2000:8"
        )
        made = caller.report()
    middle = {symbol: int(one.histogram().percentiles([50])[0, 0]) for symbol, one in made.items()}
    assert min(made["cuLaunchKernel"].counters) >= index_of(20_000)  # no call is too short
    assert 200 * us <= middle["cuStreamSynchronize"]
    assert made["cuStreamSynchronize"].total_ns > 200 * 250 * us  # 300 us on average
    assert middle["cuEventSynchronize"] > 70 * us
    slow = made["cuCtxSynchronize"].histogram()
    assert int(slow.percentiles([95])[0, 0]) >= 1000 * us > 20 * us
    # The runtime call returns the error of its nested driver call: 2,000 x 0.3 = 600 errors, within seven
    # sigma.
    assert abs(made["cudaMalloc"].errors - 600) < 150
    assert middle["cudaMalloc"] >= 5 * us


def test_a_held_call_lasts_until_it_is_released(built: Built, tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    table = write_table({"cuStreamSynchronize": Latency("hold", path=hold)}, tmp_path / "table")
    with Caller(built, table=table) as caller:
        caller.do("start 1 1 cudaStreamSynchronize")
        assert caller.report()["cudaStreamSynchronize"].calls == 0
        hold.unlink()
        caller.do("wait")
        assert caller.report()["cudaStreamSynchronize"].calls == 1


def test_exec_replaces_the_program_and_unknown_commands_are_refused(built: Built) -> None:
    with Caller(built, name="train.py") as caller:
        caller.run("cuMemFree_v2:3")
        assert Path(f"/proc/{caller.pid}/comm").read_text() == "train.py\n"
        for command in ("exec", "exec-thread"):
            assert caller.do(command) == [str(caller.pid)]
            assert caller.report() == {}
        with pytest.raises(CallerError, match="no function cuNope"):
            caller.run("cuNope:3")
        with pytest.raises(CallerError, match="unknown command"):
            caller.do("dance")
        assert caller.leave(7) == 7
    with Caller(built) as caller:
        with pytest.raises(CallerError, match="ended with status -9"):
            caller.do("kill")
        assert caller.wait() == -9
    with Caller(built) as caller:
        caller.answer()
    with pytest.raises(CallerError, match="cannot send the command"):
        caller.tell("report")


def test_callers_end_with_the_process_that_started_them(built: Built, tmp_path: Path) -> None:
    """The process that started the caller is killed while a thread of the caller is in a call that hangs."""
    hold = tmp_path / "hold"
    hold.touch()
    table = write_table({"cuLaunchKernel": Latency("hold", path=hold)}, tmp_path / "table")
    program = (
        "import os, sys; from pathlib import Path\n"
        "from stalltop.demo.build import Built; from demo.caller import Caller\n"
        f"caller = Caller(Built(Path({str(built.folder)!r})), table=Path({str(table)!r}))\n"
        "caller.start('cuLaunchKernel'); print(caller.pid, flush=True); os.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        cwd=Path(__file__).resolve().parents[3],
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert ended.returncode == -9
    status = Path(f"/proc/{int(ended.stdout)}/status")

    def gone() -> bool:
        try:
            return "State:\tZ" in status.read_text()  # an orphan may stay a zombie
        except (FileNotFoundError, ProcessLookupError):
            return True

    wait_until(gone, what="the end of the caller")


def test_a_copy_of_the_libraries_is_loaded_as_another_library(
    built: Built, tmp_path: Path, caller: Caller
) -> None:
    for library in (built.cudart, built.cuda):
        (tmp_path / library.name).write_bytes(library.read_bytes())
    caller.do(f"library runtime {tmp_path}/libcudart.so.12")
    caller.do(f"library driver {tmp_path}/libcuda.so.1")
    caller.run("cudaMalloc:2:8 cuMemFree_v2:1")
    maps = Path(f"/proc/{caller.pid}/maps").read_text()
    assert f"{tmp_path}/libcudart.so.12" in maps
    assert f"{tmp_path}/libcuda.so.1" in maps
    assert str(built.folder / "libcuda") not in maps


def test_the_calling_conventions_hold_for_ctypes(built: Built) -> None:
    """Calls the libraries through ctypes with the documented signatures, as any program could."""
    runtime = ctypes.CDLL(str(built.cudart))
    pointers = [ctypes.c_void_p() for _ in range(2)]
    for pointer in pointers:
        assert runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(1000)) == 0
    first, second = (pointer.value or 0 for pointer in pointers)
    assert second - first >= 1000
    device = ctypes.c_int(-1)
    assert runtime.cudaGetDevice(ctypes.byref(device)) == 0
    assert device.value == 0
    nccl = ctypes.CDLL(str(built.nccl))
    assert nccl.ncclGroupEnd() == 5  # ncclInvalidUsage: no open group
