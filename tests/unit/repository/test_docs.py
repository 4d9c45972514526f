"""Tests that the documents name only commands, options and files that exist."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from bench.faults.command import parser as faults_parser
from stalltop.cli import main as cli
from stalltop.cli.screen_options import FLAGS, add_screen_options
from tests.unit.repository.checkout import folders

ROOT = Path(__file__).resolve().parents[3]
README = ROOT / "README.md"
DOCUMENTS = sorted([README, ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")])
OTHERS = {
    *("--cgroupns", "--cpuset-cpus", "--pid", "--privileged", "--quick", "--rm", "--system-site-packages"),
    *("--cpus", "--cuda-graph-sizes", "--gpu-memory-utilization", "--leak-check", "--nonblocking"),
    *(
        "--gpu-reset",
        "--query-gpu",
        "--reset-applications-clocks",
        "--reset-gpu-clocks",
        "--query-compute-apps",
    ),
    *(
        "--change",
        "--cpu-shares",
        "--device-read-bps",
        "--enable-feature",
        "--hpc-job-mapping-dir",
        "--namespace",
        "--now",
        "--set",
    ),
}
"""Options of other programs, and of the benchmarks, that documents mention."""


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    options = {option for action in parser._actions for option in action.option_strings}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                options |= options_of(sub)
    return options


@pytest.mark.parametrize("document", [README, ROOT / "docs" / "config.md"], ids=lambda path: path.name)
def test_every_option_of_the_screen_is_documented(document: Path) -> None:
    screen = argparse.ArgumentParser(add_help=False)
    add_screen_options(screen)
    options = {option for action in screen._actions for option in action.option_strings} - {"--no-config"}
    assert len(options) == len(FLAGS)
    named = set(re.findall(r"`(--[a-z-]+)`", document.read_text()))
    assert options <= named, options - named


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documented_options_exist(document: Path) -> None:
    known = options_of(cli.parser()) | options_of(faults_parser()) | OTHERS
    # ./bench/run has options of its own, which are not checked here.
    text = re.sub(r"\./bench/run[^`\n]*", "", document.read_text())
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    assert named <= known, named - known


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documented_commands_exist(document: Path) -> None:
    named = re.findall(r"`(?:sudo )?(?:\./)?stalltop ([a-z]+)", document.read_text())
    named += re.findall(r"^(?:sudo )?\./stalltop ([a-z]+)", document.read_text(), re.MULTILINE)
    assert set(named) <= set(cli.COMMANDS)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_paths_exist(document: Path) -> None:
    text = document.read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if "://" not in target:
            assert (document.parent / target).exists(), target
    rooms = "|".join(sorted({*folders(), "bench", "docs", "scripts", "tests"}))
    for path in re.findall(rf"`((?:{rooms})/[\w./-]*)`", text):
        assert (ROOT / path).exists(), path


def test_the_readme_names_every_command() -> None:
    text = README.read_text()
    for command in cli.COMMANDS:
        assert f"stalltop {command}" in text
