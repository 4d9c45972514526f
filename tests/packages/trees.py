"""Debian trees in which tests run what the project installs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.unit.repository.checkout import ROOT

SCRIPTS = ROOT / "scripts"


def image_tree() -> Path:
    """Builds the root file system of the image. Fails with the output of the script."""
    done = subprocess.run([SCRIPTS / "image-tree"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(done.stdout.splitlines()[-1])


def copied_tree(tree: Path, name: str, *packages: str) -> Path:
    """Copies a tree and installs more Debian packages in the copy."""
    copy = tree.with_name(name)
    shutil.rmtree(copy, ignore_errors=True)
    install = '. "$root/scripts/debian-tree.sh"; cp -a "$1" "$2"; shift; install_in "$@"'
    command = ["sh", "-euc", install, "sh", str(tree), str(copy), *packages]
    environment = {**os.environ, "root": str(ROOT), "tool": "packages"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return copy


@dataclass(frozen=True)
class Tree:
    """A Debian tree, as the root of commands."""

    path: Path
    variables: Mapping[str, str]
    """Additional environment of the commands."""

    def output(self, *command: str, user: str = "root", code: int = 0) -> str:
        """Runs a command and returns its output. Fails if it does not end with ``code``."""
        done = subprocess.run(
            self._command(command, user), capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == code, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, *command: str, user: str = "root") -> TreeProcess:
        """Starts a command that runs until it is stopped."""
        log = self.path / "tmp" / f"{Path(command[0]).name}-{len(list((self.path / 'tmp').iterdir()))}.log"
        with log.open("wb") as said:
            return TreeProcess(subprocess.Popen(self._command(command, user), stdout=said, stderr=said), log)

    def _command(self, command: tuple[str, ...], user: str) -> list[str]:
        given = [f"{name}={value}" for name, value in self.variables.items()]
        change = ["runuser", "-u", user, "--"] if user != "root" else []
        return [str(SCRIPTS / "in-tree"), str(self.path), *change, "env", *given, *command]


@dataclass(frozen=True)
class TreeProcess:
    """A command that runs in a tree."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self) -> str:
        """Returns what it has printed."""
        return self.log.read_text(errors="replace")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Asks the command to end, and waits for it."""
        try:
            # Below the script and `unshare`, which ignores signals, is the command itself.
            for unshare in _children(self.process.pid):
                for child in _children(unshare):
                    os.kill(child, how)
            self.process.wait(60)
        except (OSError, subprocess.TimeoutExpired):
            # The command is killed with them (`unshare --kill-child`).
            for unshare in _children(self.process.pid):
                os.kill(unshare, signal.SIGKILL)
            self.process.wait()


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
