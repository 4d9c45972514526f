"""Compiled programs, ready to be loaded: what was kept, or compiled now by BCC in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import time
from dataclasses import dataclass
from typing import Final

from stalltop.model.errors import CannotTrace
from stalltop.model.progress import Progress
from stalltop.probes.programs import cache as program_cache
from stalltop.probes.programs import compiler
from stalltop.probes.programs.bcc_interpreter import INSTALL_BCC, bcc_interpreter
from stalltop.probes.programs.cache import Unusable
from stalltop.probes.programs.compiled import Compiled
from stalltop.probes.programs.recipes import Recipe

COMPILE_SECONDS: Final = 300.0
"""How long compiling may take before it counts as hung: two seconds are usual, a minute on a busy host."""
_MACHINES: Final = {"x86_64": "x86", "aarch64": "arm64"}
"""BCC's names. It compiles for the machine that ARCH names, which builders of other kernels have set."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Compiled programs and where they are from."""

    compiled: Compiled
    kept: bool
    """Whether they were compiled by an earlier start."""
    complaint: str = ""
    """Why these could not be kept; '' if they are."""


def prepare(
    recipe: Recipe, *, anew: bool = False, niceness: int = 0, progress: Progress | None = None
) -> Prepared:
    """The programs of ``recipe``: those that were kept, or else compiled now (``anew``: in any case).

    ``progress`` is told of compiling, which takes seconds. Raises CannotTrace with the reason and the remedy.
    """
    found = None
    if not anew:
        with contextlib.suppress(Unusable):  # then it is made anew, or that is complained of
            found = program_cache.find(recipe)
    if found is not None:
        return Prepared(found, kept=True)
    if progress is not None:
        progress.begin("compiling for the kernel, this once", program_cache.usual_seconds())
    compiled = _compile(recipe, niceness)
    try:
        program_cache.keep(recipe, compiled)
    except Unusable as reason:
        return Prepared(compiled, kept=False, complaint=str(reason))
    return Prepared(compiled, kept=False)


def _compile(recipe: Recipe, niceness: int) -> Compiled:
    began = time.monotonic()
    try:
        done = subprocess.run(
            [bcc_interpreter(), compiler.__file__],
            input=json.dumps(recipe.request(niceness)).encode(),
            capture_output=True,
            cwd="/",  # the compiler wants one that exists
            env={**os.environ, "ARCH": _MACHINES.get(platform.machine(), "")},
            timeout=COMPILE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotTrace(f"the kernel's programs could not be compiled: {error}") from error
    try:
        answer = json.loads(done.stdout)
        if "failed" not in answer:
            return recipe.compiled(answer, time.monotonic() - began)
    except (KeyError, TypeError, ValueError):
        answer = {"failed": "compile", "detail": f"exit status {done.returncode}"}
    raise _reason(str(answer["failed"]), str(answer["detail"]), done.stderr.decode(errors="replace"))


def _reason(failed: str, detail: str, told: str) -> CannotTrace:
    if failed == "import":
        return CannotTrace(f"BCC is missing ({detail})", INSTALL_BCC)
    complaints = [line.strip() for line in told.splitlines() if line.strip()]
    named = [line for line in complaints if "error:" in line] or complaints[-1:]
    why = f"{detail}: {named[0]}" if named else detail
    if "Operation not permitted" in told or "super-user" in detail:
        return may_not(why)
    return CannotTrace(f"the kernel's programs could not be compiled: {why}")


def may_not(why: str) -> CannotTrace:
    """The reason where this user or container lacks the right."""
    return CannotTrace(
        f"this user or container may not load eBPF programs ({why})",
        "run as root on the host; a container needs --privileged (its seccomp profile must allow bpf())",
    )
