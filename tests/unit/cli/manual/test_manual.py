"""Tests that the manual page and docs/commands.md are current and render, and that shells complete."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from scripts.write_manual import documents
from stalltop.cli.main import COMMANDS, parser
from stalltop.cli.manual.completion import SHELLS, script
from stalltop.cli.manual.described import described
from stalltop.tui.keys.actions import ACTIONS

ROOT = Path(__file__).resolve().parents[4]
COMPLETED = (
    ("", {"live", "demo", "query", "completion"}),
    ("de", {"demo"}),
    ("demo no", {"noisy-neighbour"}),
    ("demo --the", {"--theme"}),
    ("--theme da", {"dark"}),
    ("export --to par", {"parquet"}),
    ("diff --fail-if p9", {"p95", "p99"}),
    ("diff --by name", {"namespace"}),
    ("serve --demo tr", {"trio"}),
    ("config v", {"validate"}),
    ("completion z", {"zsh"}),
    ("open a-fi", {"a-file"}),
    ("open a-file --no-c", {"--no-config"}),
    ("merge a-file a-fi", {"a-file"}),
    ("export --to csv -o a-fi", {"a-file"}),
)
"""What is typed after ``stalltop``, and completions that must be among those offered."""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    (folder / "a-file").touch()
    for shell in SHELLS:
        (folder / shell).write_text(script(shell, described(parser())))
    return folder


def test_the_manual_page_and_the_commands_are_current() -> None:
    for path, text in documents().items():
        assert path.read_text(encoding="utf-8") == text, f"{path}: run python scripts/write_manual.py"


def test_every_command_option_and_key_is_in_the_manual_page() -> None:
    text = (ROOT / "docs/stalltop.1").read_text(encoding="utf-8").replace("\\-", "-").replace("\\(aq", "'")
    for name in COMMANDS:
        assert f".SS stalltop {name}\n" in text
    for command in described(parser()):
        for option in command.options:
            assert option.flags[-1] in text
    for action in ACTIONS:
        assert action.help in text


@pytest.mark.skipif(
    shutil.which("groff") is None and shutil.which("man") is None, reason="man is not installed"
)
def test_the_manual_page_renders_without_warnings() -> None:
    done = subprocess.run(
        ["man", "--warnings", "-E", "UTF-8", "-l", str(ROOT / "docs/stalltop.1")],
        env={**os.environ, "MANPAGER": "cat", "MANWIDTH": "80", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    assert "stalltop noisy" not in done.stdout
    assert "Copy the row with its headings" in " ".join(done.stdout.split())


BASH = r"""
source ./bash
for typed; do
    read -ra COMP_WORDS <<<"stalltop $typed"
    [[ $typed != "" ]] || COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _stalltop
    printf '%s\t' "${COMPREPLY[@]}"
    echo
done
"""
FISH = r"""
source ./fish
for typed in $argv
    echo (string join \t -- (complete -C "stalltop $typed" | string replace -r '\t.*' ''))
end
"""


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_the_shell_completes(shell: str, scripts: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program = (
        ["bash", "--norc", "-c", BASH, "bash"] if shell == "bash" else ["fish", "--no-config", "-c", FISH]
    )
    done = subprocess.run(
        [*program, *(typed for typed, _ in COMPLETED)],
        cwd=scripts,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        stdin=subprocess.DEVNULL,
    )
    assert not done.stderr, done.stderr
    for (typed, offered), line in zip(COMPLETED, done.stdout.splitlines(), strict=True):
        found = set(line.split("\t")) - {""}
        assert offered <= found, (typed, found)
        assert all(one.startswith(typed.rpartition(" ")[2]) for one in found), (typed, found)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes(scripts: Path) -> None:
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(scripts)
        os.environ["TERM"] = "dumb"
        os.execvp("zsh", ["zsh", "-f", "-i"])
    seen = ""

    def until(text: str) -> None:
        nonlocal seen
        end = time.monotonic() + 60
        while text not in seen:
            assert time.monotonic() < end, seen
            if select.select([terminal], [], [], 0.1)[0]:
                seen += os.read(terminal, 65536).decode(errors="replace")
        seen = ""

    try:
        begin = (
            b"PS1='> '; autoload -Uz compinit; compinit -u -D; source ./zsh; setopt no_beep; echo RE''ADY\n"
        )
        os.write(terminal, begin)
        until("READY\r\n")
        for typed, completed in (
            ("de", "demo "),
            ("demo noi", "demo noisy-neighbour "),
            ("--theme dar", "--theme dark "),
            ("open a-fi", "open a-file "),
            ("merge a-file a-fi", "merge a-file a-file "),
        ):
            os.write(terminal, f"stalltop {typed}\t".encode())
            until(f"stalltop {completed}")
            os.write(terminal, b"\x15")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
