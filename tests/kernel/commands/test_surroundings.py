"""Tests the command line on hosts that lack something: it works, or says in one line what to do."""

from __future__ import annotations

import contextlib
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
from tests.kernel.commands.walker import walking
from tests.tui.pseudo_terminal import ROOT, PseudoTerminal

pytestmark = pytest.mark.beside

PROGRAM = (sys.executable, "-m", "stalltop")
BAD_USAGE, CANNOT_TRACE = 2, 3


@pytest.fixture(scope="module")
def walker(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """Run a process that makes calls all the time."""
    with walking(built, tmp_path_factory.mktemp("walker")) as caller:
        yield caller


def stalltop(
    *arguments: str, within: Sequence[str] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run stalltop and wait for its end; ``within`` is a command that starts it, such as ``setpriv``."""
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
    """Check that stalltop says why it cannot trace and what to do, and still prints the host's state."""
    assert done.returncode == CANNOT_TRACE, done.stderr
    first, second = done.stderr.splitlines()
    assert first.startswith("stalltop: ")
    assert reason in first
    assert remedy in second
    assert "CPU" in done.stdout, "the host's state needs no tracing"


# The next tests run stalltop as users with few rights, and on Linux kernels that report another version.

NOBODY = (
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"),
    # The capability to read any file, since other users may not be able to read the checkout.
    *("--bounding-set=-all,+dac_read_search", "--inh-caps=-all,+dac_read_search"),
    "--ambient-caps=-all,+dac_read_search",
)
ROOT_WITHOUT_CAPABILITIES = ("setpriv", "--bounding-set=-all,+dac_read_search", "--inh-caps=-all")
OLD = ("setarch", os.uname().machine, "--uname-2.6")


@pytest.mark.parametrize(
    "within", [NOBODY, ROOT_WITHOUT_CAPABILITIES], ids=["nobody", "root without capabilities"]
)
def test_once_without_root_says_so(within: Sequence[str]) -> None:
    told(stalltop("once", within=within, HOME="/nonexistent"), "needs root", "sudo")


def test_check_without_root_recommends_sudo() -> None:
    done = stalltop("check", within=NOBODY, HOME="/nonexistent")
    assert done.returncode == CANNOT_TRACE
    assert done.stderr == ""
    assert "sudo" in done.stdout


MISSING = "raise ImportError('no module here')"
"""Source of a module that cannot be imported."""


def test_a_kernel_too_old_is_recognized_by_what_it_refuses(tmp_path: Path) -> None:
    # An old version number alone is not enough: ``setarch`` makes this kernel report 2.6, and tracing works.
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


@pytest.mark.parametrize("module", [MISSING, "pass"], ids=["missing", "another bcc"])
def test_the_first_start_needs_bcc(module: str, tmp_path: Path) -> None:
    path, kept = str(package(tmp_path, module)), str(tmp_path / "kept")
    done = stalltop("once", PYTHONPATH=path, STALLTOP_CACHE_DIR=kept)
    told(done, "BCC", "apt install python3-bpfcc")


def test_later_starts_need_no_bcc(tmp_path: Path) -> None:
    path, kept = str(package(tmp_path, MISSING)), str(tmp_path / "kept")
    # The first start here has BCC and compiles the programs. The second has no BCC and uses the compiled
    # ones.
    for variables in ({}, {"PYTHONPATH": path}):
        done = stalltop("once", "--seconds", "0.2", STALLTOP_CACHE_DIR=kept, **variables)
        assert (done.returncode, done.stderr) == (0, "")


def package(folder: Path, bcc: str) -> Path:
    """Make a folder of Python packages, in which the package ``bcc`` has the source ``bcc``."""
    (folder / "bcc").mkdir()
    (folder / "bcc" / "__init__.py").write_text(textwrap.dedent(bcc))
    return folder


HIDDEN = """
mount --make-rprivate /
for place in /sys/kernel/tracing /sys/kernel/debug /sys/kernel/btf /sys/fs/bpf; do
    [ ! -d $place ] || mount -t tmpfs none $place
done
"""


def test_tracing_works_without_tracefs_and_btf_files(walker: Caller) -> None:
    done = in_own_mounts(HIDDEN, "once", "--json", "--seconds", "2")
    assert done.returncode == 0
    assert done.stderr == ""
    assert calls_of(json.loads(done.stdout), walker.pid) > 0


def test_tracing_works_without_cgroups(walker: Caller) -> None:
    hidden = "mount --make-rprivate /\nmount -t tmpfs none /sys/fs/cgroup"
    done = in_own_mounts(hidden, "once", "--json", "--seconds", "2")
    assert done.returncode == 0
    assert done.stderr == ""
    assert calls_of(json.loads(done.stdout), walker.pid) > 0


def in_own_mounts(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return stalltop(*arguments, within=("unshare", "--mount", *after(script)))


def after(script: str) -> tuple[str, ...]:
    """Return a command prefix: a shell that runs ``script`` and then the command appended to the prefix."""
    return ("/bin/sh", "-c", f'set -e\n{script}\nexec "$@"', "sh")


def calls_of(document: Mapping[str, Any], pid: int) -> int:
    return sum(row["calls"] for row in document["operations"] if row["pid"] == pid)


# The next test damages libraries.

BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda whole: whole[: len(whole) // 3],
    "no program": lambda whole: b"#!/bin/sh\n" * 1000,
    "no symbols": lambda whole: whole[:64] + bytes(len(whole) - 64),
}


def test_broken_libraries_are_reported_and_others_are_traced(
    built: Built, walker: Caller, tmp_path: Path
) -> None:
    libraries = [tmp_path / kind / "libcuda.so.1" for kind in BROKEN]
    with contextlib.ExitStack() as stack:
        for library, damage in zip(libraries, BROKEN.values(), strict=True):
            library.parent.mkdir()
            library.write_bytes(damage(built.cuda.read_bytes()))
            file = stack.enter_context(library.open("rb"))
            mapped = mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
            stack.enter_context(mapped)
        done = stalltop("once", "--json", "--seconds", "2")
    assert done.returncode == 0
    assert done.stderr == ""
    document = json.loads(done.stdout)
    for library in libraries:
        (missing,) = (entry for entry in document["probes"]["missing"] if entry["what"] == str(library))
        assert missing["reason"]
        assert missing["remedy"]
        assert missing["pid"] == os.getpid()
    assert calls_of(document, walker.pid) > 0, "other libraries are traced"


# The next tests close or redirect output, and change environment variables.


def test_closed_standard_streams_do_no_harm(walker: Caller) -> None:
    assert stalltop("once", "--seconds", "0.2", within=after("exec <&- >&-")).returncode == 0
    done = stalltop("once", "--json", "--seconds", "2", within=after("exec 2>&-"))
    assert done.returncode == 0
    assert calls_of(json.loads(done.stdout), walker.pid) > 0


def test_a_full_disk_is_reported_in_one_line() -> None:
    done = stalltop("once", "--seconds", "0.2", within=after("exec >/dev/full"))
    assert done.returncode == 1
    assert done.stderr.startswith("stalltop: ")
    assert "No space left on device" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("most", [14, 24])
def test_few_open_files_end_without_a_traceback(most: int) -> None:
    done = stalltop("once", "--seconds", "0.2", within=("prlimit", f"--nofile={most}:{most}"))
    assert done.returncode in (0, 1, CANNOT_TRACE)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0 or done.stderr.startswith("stalltop: ")


def test_tracing_works_from_a_deleted_folder(walker: Caller, tmp_path: Path) -> None:
    gone = f"cd {tmp_path}; mkdir gone; cd gone; rmdir ../gone"
    done = stalltop("once", "--json", "--seconds", "2", within=after(gone), PYTHONPATH=str(ROOT / "src"))
    assert done.returncode == 0, done.stderr
    assert calls_of(json.loads(done.stdout), walker.pid) > 0


@pytest.mark.parametrize(
    "variables",
    [{"LANG": "C"}, {"LANG": "no_SUCH.locale"}, {"PYTHONUTF8": "0", "LC_ALL": "POSIX"}],
    ids=lambda variables: " ".join(variables.values()),
)
def test_output_is_ascii_in_locales_without_utf_8(walker: Caller, variables: dict[str, str]) -> None:
    done = stalltop("once", "--seconds", "2", **variables)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "walker" in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stdout.isascii()


# The next tests use unusual terminals.


def test_the_screen_fits_a_small_terminal(walker: Caller) -> None:
    with PseudoTerminal(*PROGRAM[1:], "live", size=(60, 15)) as terminal:
        terminal.sees("walker")
        assert "LIVE" in terminal.text
        terminal.press("q")
        assert terminal.wait() == 0
        assert terminal.restored()


@pytest.mark.parametrize("kind", ["dumb", "unknown", ""])
def test_live_refuses_a_terminal_that_cannot_show_it(kind: str) -> None:
    with PseudoTerminal(*PROGRAM[1:], "live", TERM=kind) as terminal:
        assert terminal.wait() == BAD_USAGE
        lines = bytes(terminal.raw).decode().splitlines()
        assert len(lines) == 2
        assert "TERM" in lines[0]
        assert "stalltop once" in lines[1]
        assert b"\x1b" not in terminal.raw


def test_without_a_command_a_dumb_terminal_gets_one_window(walker: Caller) -> None:
    with PseudoTerminal(*PROGRAM[1:], TERM="dumb") as terminal:
        assert terminal.wait() == 0
        assert b"walker" in terminal.raw
        assert b"\x1b" not in terminal.raw


def test_no_color_sends_no_colours(walker: Caller) -> None:
    with PseudoTerminal(*PROGRAM[1:], "live", NO_COLOR="1") as terminal:
        terminal.sees("walker")
        terminal.press("q")
        assert terminal.wait() == 0
        for parameters in sgr_parameters(bytes(terminal.raw)):
            assert not {"38", "48"} & set(parameters), parameters
            assert not any(
                30 <= int(p) <= 37 or 40 <= int(p) <= 47 or 90 <= int(p) <= 107 for p in parameters
            )


def test_a_locale_without_utf_8_gets_an_ascii_screen(walker: Caller) -> None:
    with PseudoTerminal(*PROGRAM[1:], "live", LANG="C") as terminal:
        terminal.sees("walker")
        terminal.press("q")
        assert terminal.wait() == 0
        assert bytes(terminal.raw).isascii()


def test_the_screen_says_why_it_cannot_trace() -> None:
    with PseudoTerminal(
        "-c", f"import os; os.execvp({NOBODY[0]!r}, {[*NOBODY, *PROGRAM, 'live']!r})"
    ) as terminal:
        terminal.sees("needs root")
        terminal.press("q")
        assert terminal.wait() == 0
        assert terminal.restored()


def sgr_parameters(output: bytes) -> list[list[str]]:
    """Return the parameters of every SGR sequence in ``output``."""
    return [
        [number for number in found.split(";") if number]
        for found in re.findall(r"\x1b\[([0-9;]*)m", output.decode(errors="replace"))
    ]
