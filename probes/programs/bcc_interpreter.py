"""Finds the Python interpreter that can run BCC.

BCC is a package of the distribution, for the distribution's own Python. If that Python is too old for
stalltop, stalltop runs under another Python, which does not see BCC. This works because the compiler runs in
a separate process.
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
"""Time limit for an answer of an interpreter, s. Finding BCC takes 20 ms, and its version some 100 ms."""

_HAS_BCC: Final = """
import importlib.util, os, sys
found = importlib.util.find_spec("bcc")
folders = found.submodule_search_locations or () if found else ()
sys.exit(not any(os.path.exists(os.path.join(one, "libbcc.py")) for one in folders))
"""
"""Script that exits with 0 if BCC is installed. It looks for the module ``libbcc``, which PyPI's other
package named bcc does not have."""
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
    """Returns the first Python that has BCC: this one or the distribution's. If neither has BCC, returns this
    one."""
    found = (one for one in (sys.executable, DISTRIBUTION) if _ask(one, _HAS_BCC).returncode == 0)
    return next(found, sys.executable)


def bcc_version() -> str:
    """Returns the version of BCC. Raises ImportError with the reason if it cannot be used."""
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
            cwd="/",  # Python searches this folder first for modules.
            timeout=ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))
