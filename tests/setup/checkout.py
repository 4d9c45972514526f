"""Copies the launcher into a checkout of its own, in which a stand-in replaces the Python interpreter."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# Replaces /usr/bin/python3 and the environment's interpreter: makes "environments" with a copy of itself, and
# logs every use of pip and every start of the program.
INTERPRETER = r"""#!/bin/sh
log=LOG
case "$*" in
"-c import ensurepip, venv") [ ! -e "$log.no-venv" ] ;;
--version) echo "Python 3.x" ;;
"-c "*) ;;
"-m venv --clear "*)
    echo "${*%/*}" >"$log.venv"
    eval "place=\${$#}"
    rm -rf "$place"/* && mkdir -p "$place/bin" && cp "$0" "$place/bin/python" ;;
"-m pip install "*)
    echo pip >>"$log"
    [ ! -e "$log.slow" ] || sleep "$(cat "$log.slow")"
    [ ! -e "$log.no-network" ] || { echo "could not fetch" >&2; exit 1; } ;;
"-P -m stalltop "*) shift 3; echo "run $*" >>"$log" ;;
*pyproject.toml*) cat >/dev/null; echo wanted ;;
*) cat >/dev/null ;;
esac
"""


class Checkout:
    """A copy of the launcher with the stand-in interpreter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkout"
        self.folder.mkdir(mode=0o755)
        for name in ("stalltop", "pyproject.toml"):
            shutil.copy(ROOT / name, self.folder)
        (self.folder / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/environment.sh", self.folder / "scripts")
        (self.folder / "docs").mkdir()
        shutil.copy(ROOT / "docs/commands.md", self.folder / "docs")
        self.log = folder / "log"
        self.python = folder / "python3"
        self.python.write_text(INTERPRETER.replace("LOG", str(self.log)))
        self.python.chmod(0o755)

    def popen(self, *arguments: str, before: Callable[[], None] | None = None) -> subprocess.Popen[str]:
        def prepare() -> None:
            # If a shell runs the tests in the background, the tests and all programs that they start ignore
            # SIGINT.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            if before is not None:
                before()

        return subprocess.Popen(
            [str(self.folder / "stalltop"), *arguments],
            env={
                **os.environ,
                "STALLTOP_PYTHON": str(self.python),
                "XDG_DATA_HOME": str(self.folder.parent / "data"),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=prepare,
        )

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        process = self.popen(*arguments)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def uses(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def flag(self, name: str) -> Path:
        return self.log.with_name(f"{self.log.name}.{name}")
