"""Finds the Python that runs BCC.

BCC comes as a package of the distribution, for the distribution's own Python. Where that is too old for this
program, another one runs it, which does not see BCC; the compiler runs in a process of its own anyway.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from typing import Final

DISTRIBUTION: Final = "/usr/bin/python3"
INSTALL_BCC: Final = (
    "install it: apt install python3-bpfcc, or dnf install python3-bcc (PyPI's bcc is another program)"
)
ANSWER_SECONDS: Final = 30.0
"""How long an interpreter may take to tell: 20 ms whether it has BCC, some 100 ms which version."""

_HAS_BCC: Final = """
import importlib.util, os, sys
found = importlib.util.find_spec("bcc")
folders = found.submodule_search_locations or () if found else ()
sys.exit(not any(os.path.exists(os.path.join(one, "libbcc.py")) for one in folders))
"""
"""Ends with 0 where there is BCC: its module of the C library tells it from PyPI's package of that name."""
_VERSION: Final = """
import sys
try:
    import bcc
    if not hasattr(bcc, "BPF"):
        raise ImportError(bcc.__file__ + " is another package named bcc")
except (ImportError, OSError) as error:
    sys.exit(str(error))
print(getattr(bcc, "__version__", "of unknown version"))
"""


@functools.cache
def bcc_interpreter() -> str:
    """The first Python that has BCC, this one or the distribution's; this one where none has."""
    found = (one for one in (sys.executable, DISTRIBUTION) if _ask(one, _HAS_BCC).returncode == 0)
    return next(found, sys.executable)


def bcc_version() -> str:
    """The version of BCC. Raises ImportError with the reason where it cannot be used."""
    told = _ask(bcc_interpreter(), _VERSION)
    if told.returncode:
        raise ImportError(told.stderr.strip() or f"exit status {told.returncode}")
    return told.stdout.strip()


def _ask(python: str, question: str) -> subprocess.CompletedProcess[str]:
    command = [python, "-c", question]
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            cwd="/",  # the first folder that is searched for modules
            timeout=ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))
