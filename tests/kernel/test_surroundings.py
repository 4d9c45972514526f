"""The real command line where something is missing or odd: it works, or one clear line says what to do."""

from __future__ import annotations

import json
import mmap
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from stalltop.demo.build import Built
from stalltop.demo.caller import Caller
from tests.kernel.walker import walking
from tests.tui.terminal import ROOT, Terminal

pytestmark = pytest.mark.beside

PROGRAM = (sys.executable, "-m", "stalltop")
BAD_USAGE, CANNOT_TRACE = 2, 3


@pytest.fixture(scope="module")
def walker(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """A process that calls all the time."""
    with walking(built, tmp_path_factory.mktemp("walker")) as caller:
        yield caller


def stalltop(
    *arguments: str, within: Sequence[str] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the program to its end, ``within`` others that prepare it."""
    dropped = ("NO_COLOR", "PYTHONPATH", "LC_ALL", "LC_CTYPE")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return subprocess.run(
        [*within, *PROGRAM, *arguments],
        cwd=ROOT,
        env={**kept, "TERM": "xterm-256color", "LANG": "C.UTF-8", **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def told(done: subprocess.CompletedProcess[str], reason: str, remedy: str) -> None:
    """It cannot trace here, says why and what to do in two lines, and gives what it knows all the same."""
    assert done.returncode == CANNOT_TRACE, done.stderr
    first, second = done.stderr.splitlines()
    assert first.startswith("stalltop: ")
    assert reason in first
    assert remedy in second
    assert "CPU" in done.stdout, "the host's state needs no tracing"


# Who runs it, and on what kernel.

NOBODY = (
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"),
    # It may read the checkout, wherever that lies; nothing else.
    *("--bounding-set=-all,+dac_read_search", "--inh-caps=-all,+dac_read_search"),
    "--ambient-caps=-all,+dac_read_search",
)
ROOT_WITHOUT_CAPABILITIES = ("setpriv", "--bounding-set=-all,+dac_read_search", "--inh-caps=-all")
OLD = ("setarch", os.uname().machine, "--uname-2.6")


@pytest.mark.parametrize("within", [NOBODY, ROOT_WITHOUT_CAPABILITIES], ids=["nobody", "powerless root"])
def test_without_root(within: Sequence[str]) -> None:
    told(stalltop("once", within=within, HOME="/nonexistent"), "needs root", "sudo")


def test_check_without_root() -> None:
    done = stalltop("check", within=NOBODY, HOME="/nonexistent")
    assert done.returncode == CANNOT_TRACE
    assert done.stderr == ""
    assert "sudo" in done.stdout


def test_a_kernel_too_old(tmp_path: Path) -> None:
    # Not by its number alone: what is traced here is the same kernel under another.
    assert stalltop("once", "--seconds", "0.2", within=OLD).returncode == 0
    refusing = """
        class BPF:
            KPROBE = RAW_TRACEPOINT = 0
            def __init__(self, **arguments):
                raise Exception("Failed to load BPF program: Invalid argument")
    """
    done = stalltop(
        "once",
        within=OLD,
        PYTHONPATH=str(package(tmp_path, refusing)),
        STALLTOP_CACHE_DIR=str(tmp_path / "nothing kept"),
    )
    told(done, "too old", "5.15")


@pytest.mark.parametrize(
    "module", ["raise ImportError('no module here')", "pass"], ids=["missing", "another bcc"]
)
def test_bcc_is_missing(module: str, tmp_path: Path) -> None:
    path, kept = str(package(tmp_path, module)), str(tmp_path / "kept")
    done = stalltop("once", PYTHONPATH=path, STALLTOP_CACHE_DIR=kept)
    told(done, "BCC", "apt install python3-bpfcc")
    # It is asked only where no earlier start has compiled.
    for variables in ({}, {"PYTHONPATH": path}):
        done = stalltop("once", "--seconds", "0.2", STALLTOP_CACHE_DIR=kept, **variables)
        assert (done.returncode, done.stderr) == (0, "")


def package(folder: Path, bcc: str) -> Path:
    """A folder of Python packages in which `bcc` is this."""
    (folder / "bcc").mkdir()
    (folder / "bcc" / "__init__.py").write_text(textwrap.dedent(bcc))
    return folder


HIDDEN = """
mount --make-rprivate /
for place in /sys/kernel/tracing /sys/kernel/debug /sys/kernel/btf /sys/fs/bpf; do
    [ ! -d $place ] || mount -t tmpfs none $place
done
"""


def test_without_tracefs_and_btf(walker: Caller) -> None:
    done = in_own_mounts(HIDDEN, "once", "--json", "--seconds", "0.5")
    assert done.returncode == 0
    assert done.stderr == ""
    assert calls_of(json.loads(done.stdout), walker.pid) > 0


def test_without_cgroups(walker: Caller) -> None:
    hidden = "mount --make-rprivate /\nmount -t tmpfs none /sys/fs/cgroup"
    done = in_own_mounts(hidden, "once", "--json", "--seconds", "0.5")
    assert done.returncode == 0
    assert done.stderr == ""
    assert calls_of(json.loads(done.stdout), walker.pid) > 0


def in_own_mounts(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return stalltop(*arguments, within=("unshare", "--mount", *after(script)))


def after(script: str) -> tuple[str, ...]:
    """Runs what follows when a shell has done the lines of ``script``."""
    return ("/bin/sh", "-c", f'set -e\n{script}\nexec "$@"', "sh")


def calls_of(document: Mapping[str, Any], pid: int) -> int:
    return sum(row["calls"] for row in document["operations"] if row["pid"] == pid)


# What it finds.

BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda whole: whole[: len(whole) // 3],
    "no program": lambda whole: b"#!/bin/sh\n" * 1000,
    "no symbols": lambda whole: whole[:64] + bytes(len(whole) - 64),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_library(kind: str, built: Built, walker: Caller, tmp_path: Path) -> None:
    library = tmp_path / "libcuda.so.1"
    library.write_bytes(BROKEN[kind](built.cuda.read_bytes()))
    with library.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
        done = stalltop("once", "--json", "--seconds", "0.5")
        mapped.close()
    assert done.returncode == 0
    assert done.stderr == ""
    document = json.loads(done.stdout)
    missing = [entry for entry in document["probes"]["missing"] if entry["what"] == str(library)]
    assert len(missing) == 1
    assert missing[0]["reason"]
    assert missing[0]["remedy"]
    assert missing[0]["pid"] == os.getpid()
    assert calls_of(document, walker.pid) > 0, "what is whole is traced"


# Where it writes to.


def test_closed_streams(walker: Caller) -> None:
    assert stalltop("once", "--seconds", "0.2", within=after("exec <&- >&-")).returncode == 0
    done = stalltop("once", "--json", "--seconds", "0.5", within=after("exec 2>&-"))
    assert done.returncode == 0
    assert calls_of(json.loads(done.stdout), walker.pid) > 0


def test_a_full_disk() -> None:
    done = stalltop("once", "--seconds", "0.2", within=after("exec >/dev/full"))
    assert done.returncode == 1
    assert done.stderr.startswith("stalltop: ")
    assert "No space left on device" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("most", [14, 24])
def test_few_files_may_be_open(most: int) -> None:
    done = stalltop("once", "--seconds", "0.2", within=("prlimit", f"--nofile={most}:{most}"))
    assert done.returncode in (0, 1, CANNOT_TRACE)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0 or done.stderr.startswith("stalltop: ")


def test_its_folder_is_gone(walker: Caller, tmp_path: Path) -> None:
    gone = f"cd {tmp_path}; mkdir gone; cd gone; rmdir ../gone"
    done = stalltop("once", "--json", "--seconds", "0.5", within=after(gone), PYTHONPATH=str(ROOT / "src"))
    assert done.returncode == 0, done.stderr
    assert calls_of(json.loads(done.stdout), walker.pid) > 0


@pytest.mark.parametrize(
    "variables",
    [{"LANG": "C"}, {"LANG": "no_SUCH.locale"}, {"PYTHONUTF8": "0", "LC_ALL": "POSIX"}],
    ids=lambda variables: " ".join(variables.values()),
)
def test_locales(walker: Caller, variables: dict[str, str]) -> None:
    done = stalltop("once", "--seconds", "0.5", **variables)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "walker" in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stdout.isascii()


# On a terminal.


def test_a_small_terminal(walker: Caller) -> None:
    with Terminal(*PROGRAM[1:], "live", size=(60, 15)) as terminal:
        terminal.sees("walker")
        assert "LIVE" in terminal.text
        terminal.press("q")
        assert terminal.wait() == 0
        assert terminal.restored()


@pytest.mark.parametrize("kind", ["dumb", "unknown", ""])
def test_a_terminal_that_shows_no_screen(kind: str) -> None:
    with Terminal(*PROGRAM[1:], "live", TERM=kind) as terminal:
        assert terminal.wait() == BAD_USAGE
        lines = bytes(terminal.raw).decode().splitlines()
        assert len(lines) == 2
        assert "TERM" in lines[0]
        assert "stalltop once" in lines[1]
        assert b"\x1b" not in terminal.raw


def test_a_terminal_that_shows_no_screen_gets_one_window(walker: Caller) -> None:
    """Where no command asks for the screen."""
    with Terminal(*PROGRAM[1:], TERM="dumb") as terminal:
        assert terminal.wait() == 0
        assert b"walker" in terminal.raw
        assert b"\x1b" not in terminal.raw


def test_no_colours(walker: Caller) -> None:
    with Terminal(*PROGRAM[1:], "live", NO_COLOR="1") as terminal:
        terminal.sees("walker")
        terminal.press("q")
        assert terminal.wait() == 0
        for parameters in sgr_parameters(bytes(terminal.raw)):
            assert not {"38", "48"} & set(parameters), parameters
            assert not any(
                30 <= int(p) <= 37 or 40 <= int(p) <= 47 or 90 <= int(p) <= 107 for p in parameters
            )


def test_ascii_only(walker: Caller) -> None:
    with Terminal(*PROGRAM[1:], "live", LANG="C") as terminal:
        terminal.sees("walker")
        terminal.press("q")
        assert terminal.wait() == 0
        assert bytes(terminal.raw).isascii()


def test_the_screen_says_why_it_cannot_trace() -> None:
    with Terminal("-c", f"import os; os.execvp({NOBODY[0]!r}, {[*NOBODY, *PROGRAM, 'live']!r})") as terminal:
        terminal.sees("needs root")
        terminal.press("q")
        assert terminal.wait() == 0
        assert terminal.restored()


def sgr_parameters(output: bytes) -> list[list[str]]:
    """The numbers of every sequence that chooses how characters look."""
    return [
        [number for number in found.split(";") if number]
        for found in re.findall(r"\x1b\[([0-9;]*)m", output.decode(errors="replace"))
    ]
