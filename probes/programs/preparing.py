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
"""Time after which a compilation is assumed to hang, s. Usually it takes two seconds; on a busy host it may
take a minute."""
_MACHINES: Final = {"x86_64": "x86", "aarch64": "arm64"}
"""BCC's names of machines. BCC compiles for the machine that the environment variable ARCH names. A user who
builds Linux for other machines may have set ARCH, so it is set to this machine."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Compiled programs, and where they come from."""

    compiled: Compiled
    kept: bool
    """Whether the programs come from the cache or from a package. If not, they were compiled now."""
    complaint: str = ""
    """Why the programs could not be cached; '' if they were cached, or if they were not compiled now."""


def prepare(
    recipe: Recipe, *, anew: bool = False, niceness: int = 0, progress: Progress | None = None
) -> Prepared:
    """Returns the programs of ``recipe``. They come from the cache if it has them, and are compiled
    otherwise. With ``anew``, they are compiled in any case.

    ``progress`` is informed if programs are compiled, because this takes seconds. Raises TracingError with
    the reason and the remedy.
    """
    found = None
    if not anew:
        # If the file cannot be used, the programs are compiled again. If the folder cannot be used, `keep`
        # reports that.
        with contextlib.suppress(CacheFileError):
            found = program_cache.find(recipe)
    if found is not None:
        return Prepared(found, kept=True)
    if progress is not None:
        progress.begin("compiling BPF programs (first start of this version)", program_cache.usual_seconds())
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
            cwd="/",  # The compiler needs a working folder that exists.
            env={**os.environ, "ARCH": _MACHINES.get(platform.machine(), "")},
            timeout=COMPILE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TracingError(f"the BPF programs could not be compiled: {error}") from error
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
    return TracingError(f"the BPF programs could not be compiled: {why}")


def may_not(why: str) -> TracingError:
    """Returns the error for a user or container that may not load eBPF programs, for the reason ``why``."""
    return TracingError(
        f"this user or container may not load eBPF programs ({why})",
        "run as root on the host; a container needs --privileged (its seccomp profile must allow bpf())",
    )
