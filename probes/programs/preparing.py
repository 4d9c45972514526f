"""Provides compiled programs that are ready to be loaded: from the cache, or compiled now by BCC in a
separate process."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import time
from dataclasses import dataclass
from typing import Final

from stalltop.model.errors import TracingError
from stalltop.model.progress import Progress
from stalltop.probes.programs import cache as program_cache
from stalltop.probes.programs import compiler
from stalltop.probes.programs.bcc_interpreter import INSTALL_BCC, bcc_interpreter
from stalltop.probes.programs.cache import CacheFileError
from stalltop.probes.programs.compiled import Compiled
from stalltop.probes.programs.recipes import Recipe

COMPILE_SECONDS: Final = 300.0
"""Time after which a compilation counts as hung, s: two seconds are usual, a minute on a busy host."""
_MACHINES: Final = {"x86_64": "x86", "aarch64": "arm64"}
"""BCC's names of machines. BCC compiles for the machine that the environment variable ARCH names, which a
user who builds Linux for other machines may have set: so it is set to this one."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Compiled programs and where they come from."""

    compiled: Compiled
    kept: bool
    """Whether they come from the cache or from a package, and were not compiled now."""
    complaint: str = ""
    """Why they could not be cached; '' if they could, or were not compiled now."""


def prepare(
    recipe: Recipe, *, anew: bool = False, niceness: int = 0, progress: Progress | None = None
) -> Prepared:
    """Returns the programs of ``recipe``: from the cache, or else compiled now (with ``anew``, in any case).

    ``progress`` is informed of a compilation, which takes seconds. Raises TracingError with the reason and
    the remedy.
    """
    found = None
    if not anew:
        # An unusable file is compiled anew; an unusable folder is reported by `keep`.
        with contextlib.suppress(CacheFileError):
            found = program_cache.find(recipe)
    if found is not None:
        return Prepared(found, kept=True)
    if progress is not None:
        progress.begin("compiling for the kernel, this once", program_cache.usual_seconds())
    compiled = _compile(recipe, niceness)
    try:
        program_cache.keep(recipe, compiled)
    except CacheFileError as reason:
        return Prepared(compiled, kept=False, complaint=str(reason))
    return Prepared(compiled, kept=False)


def _compile(recipe: Recipe, niceness: int) -> Compiled:
    began = time.monotonic()
    try:
        done = subprocess.run(
            [bcc_interpreter(), compiler.__file__],
            input=json.dumps(recipe.request(niceness)).encode(),
            capture_output=True,
            cwd="/",  # The compiler needs a folder that exists.
            env={**os.environ, "ARCH": _MACHINES.get(platform.machine(), "")},
            timeout=COMPILE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TracingError(f"the kernel's programs could not be compiled: {error}") from error
    try:
        answer = json.loads(done.stdout)
        if "failed" not in answer:
            return recipe.compiled(answer, time.monotonic() - began)
    except (KeyError, TypeError, ValueError):
        answer = {"failed": "compile", "detail": f"exit status {done.returncode}"}
    raise _reason(str(answer["failed"]), str(answer["detail"]), done.stderr.decode(errors="replace"))


def _reason(failed: str, detail: str, told: str) -> TracingError:
    if failed == "import":
        return TracingError(f"BCC is missing ({detail})", INSTALL_BCC)
    complaints = [line.strip() for line in told.splitlines() if line.strip()]
    named = [line for line in complaints if "error:" in line] or complaints[-1:]
    why = f"{detail}: {named[0]}" if named else detail
    if "Operation not permitted" in told or "super-user" in detail:
        return may_not(why)
    return TracingError(f"the kernel's programs could not be compiled: {why}")


def may_not(why: str) -> TracingError:
    """Returns the error for a user or container that lacks the privilege."""
    return TracingError(
        f"this user or container may not load eBPF programs ({why})",
        "run as root on the host; a container needs --privileged (its seccomp profile must allow bpf())",
    )
