"""Print a script that lets a shell complete commands, options, files, scenarios and columns.

bash: source <(stalltop completion bash), in ~/.bashrc. zsh: source <(stalltop completion zsh), in ~/.zshrc
after compinit. fish: stalltop completion fish > ~/.config/fish/completions/stalltop.fish
"""

from __future__ import annotations

import argparse
import sys

SHELLS = ("bash", "zsh", "fish")
"""Names of the shells for which there is a script."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this command."""
    parser.add_argument(
        "shell", choices=SHELLS, metavar="bash|zsh|fish", help="the shell that runs the script"
    )


def run(options: argparse.Namespace) -> int:
    """Prints the script on stdout."""
    from stalltop.cli.main import parser
    from stalltop.cli.manual.completion import script
    from stalltop.cli.manual.described import described

    sys.stdout.write(script(options.shell, described(parser())))
    return 0
