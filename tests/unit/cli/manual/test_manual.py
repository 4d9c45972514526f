"""Tests that the manual page and docs/commands.md are current and render, and that shells complete."""

from __future__ import annotations

import os
import shutil
import subprocess
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
    text = (ROOT / "docs/stalltop.1").read_text(encoding="utf-8").replace("\\-", "-")
    for name in COMMANDS:
        assert f".SS stalltop {name}\n" in text
    for command in described(parser()):
        for option in command.options:
            assert option.flags[-1] in text
    # man(7) writes the sign ^ and others by name; words are as they are.
    for action in ACTIONS:
        assert action.help.replace("-", "\\-").replace("\\-", "-").partition("'")[0] in text


@pytest.mark.skipif(shutil.which("groff") is None and shutil.which("man") is None, reason="man is not installed")
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


def asked(shell: str, typed: str, folder: Path) -> set[str]:
    """Return what ``shell`` offers after ``stalltop`` and ``typed``."""
    words = ["stalltop", *typed.split(" ")]
    programs = {
        "bash": [
            *("bash", "--norc", "-c"),
            'source bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _stalltop; printf "%s\\n" "${COMPREPLY[@]}"',
            *("bash", *words),
        ],
        "fish": ["fish", "--no-config", "-c", f"source fish; complete -C 'stalltop {typed}'"],
        # The completion runs in a terminal of its own; zle prints what it offers.
        "zsh": ["zsh", "-f", "-c", ZSH, "zsh", f"stalltop {typed}"],
    }
    done = subprocess.run(
        programs[shell], cwd=folder, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL
    )
    assert not done.stderr, done.stderr
    return {line.partition("\t")[0].strip() for line in done.stdout.splitlines()}


ZSH = r"""
zmodload zsh/zpty
zpty inner zsh -f -i
zpty -w inner 'PS1=; autoload -Uz compinit; compinit -u -D; source ./zsh; setopt no_beep no_list_beep'
zpty -w inner 'compadd() { local -a hits; if [[ ${@[(I)-[OAD]]} -gt 0 ]]; then builtin compadd "$@"; return; fi; builtin compadd -O hits "$@"; print -rl -- "HIT:"${^hits} >>hits; builtin compadd "$@"; }'
zpty -w inner 'bindkey "^I" complete-word; touch hits; print RE''ADY'
zpty -r -m inner out '*READY*'
zpty -w -n inner "$1"$'\t'
for i in {1..100}; do sleep 0.05; [[ -s hits ]] && break; done
sleep 0.3
sed -n 's/^HIT://p' hits; rm -f hits
"""


@pytest.mark.parametrize(("typed", "offered"), COMPLETED, ids=lambda one: one if isinstance(one, str) else "")
@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_completes(shell: str, typed: str, offered: set[str], scripts: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    if shell == "zsh" and typed == "":
        typed = "l"
        offered = {"live"}
    found = asked(shell, typed, scripts)
    assert offered <= found, found
    if shell != "zsh" and typed and not typed.endswith(("fi", "--fail-if p9")):
        assert all(one.startswith(typed.split(" ")[-1]) for one in found), found
