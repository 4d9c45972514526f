"""``./bench/run attack``: attacks a tracer, while another tenant makes calls that all have to be counted."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.attack import attackers
from bench.measuring import namespace
from bench.measuring.document import put
from bench.measuring.machine import machine
from bench.measuring.program import ROOT
from bench.measuring.table import TextTable
from bench.soak.footprint import footprint
from bench.soak.watch import Watch
from stalltop.demo.build import Built, build, compiler
from stalltop.demo.caller import Caller
from stalltop.demo.cgroups import Cgroups, container_id, container_path, kill_all
from stalltop.model.errors import StalltopError, TracingError
from stalltop.model.window import UNCOUNTED, Window
from stalltop.serving.host.place import connected
from stalltop.serving.host.tracer_link import TracerLink

DOCUMENT: Final = ROOT / "docs/security.md"
BEGIN: Final = "<!-- figures: attack, written by ./bench/run attack --write-docs -->"
END: Final = "<!-- end of figures: attack -->"
NOBODY: Final = 65534
IN_CONTAINER: Final = ("file_system", "connections", "containers")
"""Attacks that an unprivileged user cannot make."""
_UNSHARED: Final = ("--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--fork", "--mount-proc")
_JOIN: Final = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
_VICTIM: Final = "cudaLaunchKernel:20:1 cudaMemcpyAsync:1:4096:1 ~5000"
_NEWCOMER: Final = "cudaLaunchKernel:1:1 ~2000"
_SETTLE_SECONDS: Final = 3.0
_NEW_SECONDS: Final = 10.0
"""For how long a process with a library of its own makes calls, s."""
_MOST_NEW_SECONDS: Final = 3.0
"""After so many seconds, its calls have to be counted."""
_START_SECONDS: Final = 90.0
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e]")
GREEDY: Final = """
#define CALL(name) int name(void) { __asm__ volatile(""); return 0; }
CALL(cudaSetDevice) CALL(cudaDeviceSynchronize) CALL(cudaStreamSynchronize) CALL(cudaEventRecord)
CALL(cudaLaunchKernel) CALL(cudaEventQuery)
int cudaMalloc(void **to, unsigned long bytes) { *to = (void *)bytes; return 0; }
"""
"""The attackers' CUDA runtime, which accepts every device."""


@dataclass(slots=True)
class AttackOutcome:
    """What others lost by an attack."""

    attack: str
    who: str
    made: int
    """Calls of the victim."""
    counted: int
    new_seconds: float
    """After how many seconds a process that brought its own library was traced."""
    longest_seconds: float
    """Longest window."""
    resident_mb: float
    """Memory of the tracer at the end."""
    faults: list[str] = field(default_factory=list)
    """What must not happen, and did."""
    told: str = ""
    """What the tracer said about the attacker."""
    missed: int = 0
    """Calls on the whole host that the tracer counted as missed, most of them the attacker's."""

    times: int = 1

    def joined(self, later: AttackOutcome) -> AttackOutcome:
        """Returns the outcome of this attack and of the same one made ``later``: sums, and the worst."""
        return AttackOutcome(
            self.attack,
            self.who,
            self.made + later.made,
            self.counted + later.counted,
            max(self.new_seconds, later.new_seconds),
            max(self.longest_seconds, later.longest_seconds),
            later.resident_mb,
            [*self.faults, *(fault for fault in later.faults if fault not in self.faults)],
            later.told or self.told,
            self.missed + later.missed,
            self.times + later.times,
        )

    @property
    def held(self) -> bool:
        """Returns whether the victim lost nothing, and nothing else went wrong."""
        return self.made == self.counted and not self.faults


class PidWatch(Watch):
    """Also counts the calls of each process, and keeps what windows say."""

    def __init__(self, link: TracerLink) -> None:
        self.of_pid: Counter[int] = Counter()
        self.longest = 0.0
        self.said: dict[str, None] = {}
        self.unclean: set[str] = set()
        super().__init__(link, ())

    def add(self, window: Window) -> None:
        """Adds the counts of ``window``."""
        self.longest = max(self.longest, window.seconds)
        for key, calls in zip(window.rows.keys, window.rows.calls.tolist(), strict=True):
            if key.layer == "runtime" and key.outermost:
                self.of_pid[key.pid] += calls
            self.unclean |= {text for text in (key.process, key.tenant) if _CONTROL.search(text)}
        for gap in window.coverage.missing:
            self.said[gap.reason] = None
            self.unclean |= {text for text in (gap.what, gap.reason) if _CONTROL.search(text)}
        for name in UNCOUNTED:
            if window.loss.get(name):
                self.said[f"counted as missed: {name}"] = None
        super().add(window)


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="bench/run attack",
        description="Attack a tracer as an unprivileged user and as root of a container, while another "
        "tenant makes calls that all have to be counted, and new processes have to be traced. Needs root.",
        epilog="attacks: " + ", ".join(attackers.ATTACKS),
    )
    made.add_argument("names", nargs="*", metavar="ATTACK", help="which attacks (default: all)")
    made.add_argument(
        "--seconds", type=float, default=14.0, help="how long each attack goes on (default: 14)"
    )
    made.add_argument(
        "--minutes", type=float, metavar="M", help="make the attacks again and again for M minutes"
    )
    made.add_argument(
        "--rest", type=float, default=0.0, metavar="S", help="wait S seconds after each attack (default: 0)"
    )
    made.add_argument("--write-docs", action="store_true", help="write the table into docs/security.md")
    return made


def main(arguments: Sequence[str], say: Callable[[str], None] = print) -> int:
    """Makes the attacks; returns 1 if others lost something by one of them. Raises StalltopError."""
    options = parser().parse_args(arguments)
    unknown = [name for name in options.names if name not in attackers.ATTACKS]
    if unknown:
        raise StalltopError(f"no such attack: {unknown[0]}")
    if os.geteuid() != 0:
        raise TracingError("attacks need root", "run with sudo")
    if not namespace.inside():
        return namespace.run_inside("attack", arguments)
    folder = Path(tempfile.mkdtemp(prefix="stalltop-attack-"))
    about = machine()
    outcomes: dict[tuple[str, str], AttackOutcome] = {}
    began = time.monotonic()
    try:
        with _Stage(folder) as stage:
            for name, who in _plan(options.names or [*attackers.ATTACKS], began, options.minutes):
                outcome = stage.attacked(name, who, options.seconds)
                print(f"attack: {outcome}", file=sys.stderr)
                before = outcomes.get((name, who))
                outcomes[name, who] = outcome if before is None else before.joined(outcome)
                time.sleep(options.rest)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    made = table([*outcomes.values()], options.seconds, (time.monotonic() - began) / 60.0)
    text = f"{about}\n\n{made.text().rstrip()}"
    say(text)
    if options.write_docs:
        put(DOCUMENT, BEGIN, END, f"```\n{text}\n```")
    return 0 if all(outcome.held for outcome in outcomes.values()) else 1


def _plan(names: Sequence[str], began: float, minutes: float | None) -> Iterator[tuple[str, str]]:
    """Yields each attack with each kind of attacker; again and again, if so many ``minutes`` are given."""
    while True:
        for name in names:
            for who in ("container",) if name in IN_CONTAINER else ("user", "container"):
                if minutes is not None and time.monotonic() - began >= 60.0 * minutes:
                    return
                yield name, who
        if minutes is None:
            return


def table(outcomes: Sequence[AttackOutcome], seconds: float, minutes: float) -> TextTable:
    """Returns the outcomes as a table. ``minutes``: how long they took together."""
    made = TextTable(
        f"attack: what others lose, {sum(one.times for one in outcomes)} attacks of {seconds:g} s in "
        f"{minutes:.0f} minutes",
        (
            "attack",
            "as",
            "times",
            "calls made",
            "not counted",
            "missed, of all",
            "new process traced, s",
            "longest window, s",
            "MB",
            "told",
        ),
    )
    for one in outcomes:
        made.add(
            one.attack.replace("_", " "),
            one.who,
            f"{one.times}",
            f"{one.made:,}",
            f"{one.made - one.counted:,}",
            f"{one.missed:,}",
            f"{one.new_seconds:.2f}",
            f"{one.longest_seconds:.1f}",
            f"{one.resident_mb:.0f}",
            "; ".join([*(f"FAULT: {fault}" for fault in one.faults), one.told]).strip("; ") or "-",
        )
    made.notes += [
        "",
        "as: an unprivileged user, or root of a container with namespaces and a cgroup of its own",
        "calls, not counted: of another tenant, during the attack; missed, of all: calls of the whole host "
        "that the tracer counted as missed",
        "new process traced, longest window: the longest of all times; new process: of another tenant, with "
        "a library of its own",
        "MB: resident memory of the tracer at the end of the last time",
    ]
    return made


class _Stage:
    """A tracer, and a tenant that makes calls. ``folder`` is empty."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self._socket = folder / "tracer.sock"

    def __enter__(self) -> _Stage:
        with self._stack:
            self._folder.chmod(0o755)
            # The tracer probes copies, which no other process on this host uses.
            self._built = Built(Path(shutil.copytree(build().folder, self._folder / "libraries")))
            self._greedy = self._folder / attackers.LIBRARY
            source = self._folder / "greedy.c"
            source.write_text(GREEDY)
            command = [*compiler(), "-shared", "-fPIC", "-O1", "-o", str(self._greedy), str(source)]
            subprocess.run(command, check=True)
            self._program = Path(shutil.copy(attackers.__file__, self._folder / "attackers.py"))
            self._cgroups = self._stack.enter_context(Cgroups())
            self._victim = self._stack.enter_context(self._caller(self._built.folder, "victim"))
            self._victim.do("load cudaLaunchKernel")
            self._tracer = self._started()
            self._watch = PidWatch(self._linked())
            self._stack.callback(self._watch.close)
            _until(lambda: self._watch.windows >= 3, "windows of the tracer")
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def attacked(self, name: str, who: str, seconds: float) -> AttackOutcome:
        """Makes one attack, and returns what it did to others."""
        watch, victim = self._watch, self._victim
        before, made_before = watch.of_pid[victim.pid], _made(victim)
        watch.longest, watch.said, watch.unclean = 0.0, {}, set()
        missed_before = watch.losses.total()
        victim.start(_VICTIM)
        faults: list[str] = []
        with self._attack(name, who, seconds) as (attacker, place):
            time.sleep(_SETTLE_SECONDS)
            new_seconds = self._new_process(name, faults)
            with contextlib.suppress(subprocess.TimeoutExpired):
                attacker.wait(max(seconds - _SETTLE_SECONDS - _NEW_SECONDS, 0.0) + 1.0)
            said = attacker.poll()
            if said not in (None, 0):
                faults.append(f"the attack itself failed: {self._error(place)}")
            if (place / "opened").exists():
                faults.append("the tracer opened a FIFO")
        victim.stop()
        self._await_windows()
        if self._tracer.poll() is not None:
            raise StalltopError(
                f"the tracer ended during {name}: {(self._folder / 'said').read_text()[-400:]}"
            )
        if watch.unclean:
            faults.append(f"a name with control characters: {sorted(watch.unclean)[0]!r}")
        resident = footprint(self._tracer.pid, 0.0)[0].resident_mb
        made, counted = _made(victim) - made_before, watch.of_pid[victim.pid] - before
        told = next((reason for reason in watch.said if "over quota" in reason), next(iter(watch.said), ""))
        return AttackOutcome(
            name,
            who,
            made,
            counted,
            new_seconds,
            watch.longest,
            resident,
            faults,
            told[:100],
            watch.losses.total() - missed_before,
        )

    def _new_process(self, name: str, faults: list[str]) -> float:
        """Starts a process with a library of its own; returns the seconds until it was traced: the time in
        which its first calls were not counted."""
        libraries = Path(shutil.copytree(self._built.folder, self._folder / f"new-{time.monotonic_ns()}"))
        with self._caller(libraries, "newcomer") as caller:
            caller.do("load cudaLaunchKernel")
            began = time.monotonic()
            caller.start(_NEWCOMER)
            time.sleep(_NEW_SECONDS)
            caller.stop()
            took, made = time.monotonic() - began, _made(caller)
            self._await_windows()
            counted = self._watch.of_pid[caller.pid]
        shutil.rmtree(libraries)
        if not counted:
            faults.append("a new process was not traced")
        elif made > counted and took * (1 - counted / made) > _MOST_NEW_SECONDS:
            faults.append(f"a new process was traced only after more than {_MOST_NEW_SECONDS:g} s")
        return took * (made - counted) / made

    def _await_windows(self) -> None:
        """Waits for a window of all that has happened so far."""
        now = time.time()
        _until(lambda: self._watch.since > now, "a window of the tracer")

    @contextlib.contextmanager
    def _attack(self, name: str, who: str, seconds: float) -> Iterator[tuple[subprocess.Popen[Any], Path]]:
        place = Path(tempfile.mkdtemp(dir=self._folder, prefix=f"{name}-"))
        shutil.copy(self._greedy, place)
        cgroup = self._cgroups.make(container_path("docker", container_id()))
        command = ["/usr/bin/python3", "-I", str(self._program), name, str(place), str(seconds)]
        if who == "user":
            for path in (place, *place.iterdir()):
                os.chown(path, NOBODY, NOBODY)
            user = f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"
            command = ["setpriv", *user, *command]
        else:
            command = ["unshare", *_UNSHARED, *command]
        with (place / "said").open("w") as said:
            attacker = subprocess.Popen(
                ["/bin/sh", "-c", _JOIN, str(cgroup), *command],
                env={
                    "PATH": os.environ["PATH"],
                    "TRACER_SOCKET": str(self._socket),
                    "OWN_CGROUP": str(cgroup),
                },
                cwd="/",
                stdin=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )
        try:
            yield attacker, place
        finally:
            for inner in [*cgroup.rglob("*.scope"), cgroup]:
                kill_all(inner)
            attacker.kill()
            attacker.wait()
            for inner in cgroup.rglob("*.scope"):
                with contextlib.suppress(OSError):
                    inner.rmdir()
            self._cgroups.remove(cgroup)
            shutil.rmtree(place, ignore_errors=True)

    def _caller(self, libraries: Path, name: str) -> Caller:
        cgroup = self._cgroups.make(container_path("docker", container_id()))
        return Caller(self._built, cgroup=cgroup, folder=libraries, name=name)

    def _started(self) -> subprocess.Popen[Any]:
        command = [sys.executable, "-P", "-m", "stalltop", "record", "--no-state"]
        command += ["--to", str(self._folder / "recording.stalltop"), "--socket", str(self._socket)]
        with (self._folder / "said").open("w") as said:
            tracer = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=said)
        self._stack.callback(tracer.wait)
        self._stack.callback(tracer.terminate)
        return tracer

    def _linked(self) -> TracerLink:
        link = _until(lambda: connected(self._socket), "the tracer")
        assert link is not None
        return TracerLink(link)

    def _error(self, place: Path) -> str:
        lines = (place / "said").read_text().strip().splitlines()
        return lines[-1] if lines else "nothing was said"


def _made(caller: Caller) -> int:
    return sum(made.calls for symbol, made in caller.report().items() if symbol.startswith("cuda"))


def _until(look: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + _START_SECONDS
    while not (found := look()):
        if time.monotonic() > end:
            raise StalltopError(f"waited {_START_SECONDS:g} s for {what}")
        time.sleep(0.1)
    return found
