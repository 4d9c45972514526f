"""Makes the scripts by which bash, zsh and fish complete commands, options, and their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from stalltop.cli.manual.described import Argument, DescribedCommand, Word

_DEFAULT: Final = "live"
"""The command that runs on a terminal if the user names none: its options are offered too."""


def script(shell: str, commands: Sequence[DescribedCommand]) -> str:
    """Return the completion script for ``shell``, a name in ``SHELLS``. ``commands`` are the commands of the
    program; the first one is the program itself."""
    return SHELLS[shell](commands)


def _without(commands: Sequence[DescribedCommand]) -> DescribedCommand:
    """Return the command whose options may follow ``stalltop`` without a command."""
    return next(one for one in commands if one.name == _DEFAULT)


# ---- bash


def bash(commands: Sequence[DescribedCommand]) -> str:
    """Return the script for bash. It works without the package bash-completion."""
    top, *named = commands
    names = " ".join(one.name for one in named)
    flags = " ".join(flag for one in top.options for flag in one.flags)
    lines = [
        "# Completion of stalltop for bash: source <(stalltop completion bash)",
        "_stalltop() {",
        "    local current=${COMP_WORDS[COMP_CWORD]} command= option= words= paths= at place=0",
        "    # bash splits --window=10 into three words.",
        "    [[ $current != = ]] || current=",
        "    at=$((COMP_CWORD - 1))",
        "    [[ ${COMP_WORDS[at]} != = ]] || at=$((at - 1))",
        "    option=${COMP_WORDS[at]}",
        "    for ((at = 1; at < COMP_CWORD; at++)); do",
        f'        if [[ -z $command && " {names} " == *" ${{COMP_WORDS[at]}} "* ]]; then',
        "            command=${COMP_WORDS[at]}",
        "        elif [[ ${COMP_WORDS[at]} != -* && ${COMP_WORDS[at]} != = && -n $command ]]; then",
        '            _stalltop_takes "$command" "${COMP_WORDS[at - 1]}" || place=$((place + 1))',
        "        fi",
        "    done",
        '    case "$command ${option}" in',
    ]
    for command in (*named, _nameless(_without(commands))):
        for one in command.options:
            if one.value:
                pattern = " | ".join(f'"{command.name} {flag}"' for flag in one.flags)
                offer = _bash_value(one)
                if one.optional:  # without the value, an option may follow
                    offer += f"; [[ $current != -* ]] || words=$(_stalltop_flags '{command.name}')"
                lines.append(f"    {pattern}) {offer} ;;")
    lines += [
        "    *)",
        '        if [[ $current == -* ]]; then words=$(_stalltop_flags "$command"); else',
        '            case "$command $place" in',
        f'            " 0") words="{names} help" ;;',
    ]
    for command in named:
        for place, one in enumerate(command.positional):
            number = "*" if one.repeated else str(place)
            lines.append(f"            '{command.name} '{number}) {_bash_value(one)} ;;")
    lines += [
        "            esac",
        "        fi",
        f'        [[ -n $command || $current != -* ]] || words="$words {flags}"',
        "        ;;",
        "    esac",
        "    COMPREPLY=()",
        "    if [[ -n $paths ]]; then",
        "        compopt -o filenames 2>/dev/null",
        '        mapfile -t COMPREPLY < <(compgen -f -- "$current")',
        "    fi",
        '    [[ -z $words ]] || mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY'
        ' < <(compgen -W "$words" -- "$current")',
        "}",
        "_stalltop_flags() { # command: prints its options",
        '    case "$1" in',
        *(
            f"    '{one.name}') echo '{' '.join(flag for option in one.options for flag in option.flags)}' ;;"
            for one in (*named, _nameless(_without(commands)))
        ),
        "    esac",
        "}",
        "_stalltop_takes() { # command, option: succeeds if the next word is a value of the option",
        '    case "$1 $2" in',
    ]
    taking = [
        f'"{one.name} {flag}"'
        for one in named
        for option in one.options
        if option.value
        for flag in option.flags
    ]
    lines += [
        f"    {' | '.join(taking)}) return 0 ;;",
        '    *" =") return 0 ;;',
        "    esac",
        "    return 1",
        "}",
        "complete -F _stalltop stalltop",
    ]
    return "\n".join(lines) + "\n"


def _nameless(command: DescribedCommand) -> DescribedCommand:
    return DescribedCommand("", command.summary, command.about, command.arguments)


def _bash_value(one: Argument) -> str:
    words = f"words='{' '.join(word for word, _ in one.words)}'" if one.words else ""
    return "; ".join(part for part in (words, "paths=yes" if one.path else "") if part) or ":"


# ---- zsh


def zsh(commands: Sequence[DescribedCommand]) -> str:
    """Return the script for zsh: a file ``_stalltop`` in a folder of ``$fpath``, or text to source."""
    top, *named = commands
    lines = [
        "#compdef stalltop",
        "# Completion of stalltop for zsh: source <(stalltop completion zsh)",
        "_stalltop() {",
        "    local -a commands",
        "    local context state state_descr line",
        "    typeset -A opt_args",
        "    commands=(",
        *(f"        {_quoted(_colons(one.name) + ':' + _colons(one.summary))}" for one in named),
        "    )",
        "    # Options without a command are those of live.",
        "    if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then",
        "        _describe -t commands command commands",
        "        return",
        "    fi",
        "    local command=$words[2]",
        "    if (( ${+commands[(r)$command:*]} )) && (( CURRENT > 2 )); then",
        "        shift words",
        "        (( CURRENT-- ))",
        "    else",
        "        command=",
        "    fi",
        "    case $command in",
    ]
    for command in named:
        lines += [f"    {command.name})", *_zsh_arguments(command.arguments), "        ;;"]
    lines += ["    *)", *_zsh_arguments((*top.options, *_without(commands).options[1:])), "        ;;"]
    lines += [
        "    esac",
        "}",
        'if [[ "${funcstack[1]-}" == _stalltop ]]; then _stalltop "$@"; else compdef _stalltop stalltop; fi',
    ]
    return "\n".join(lines) + "\n"


def _zsh_arguments(arguments: Sequence[Argument]) -> list[str]:
    specs = []
    for one in arguments:
        value = _zsh_value(one)
        if not one.flags:
            times = "*" if one.repeated else ":" if one.optional else ""
            specs.append(_quoted(f"{times}:{_zsh_text(one.value)}:{value}"))
        for flag in one.flags:
            alone = "" if one.flags == (flag,) else f"({' '.join(one.flags)})"
            takes = f"{'::' if one.optional else ':'}{_zsh_text(one.value)}:{value}" if one.value else ""
            long = "=" if one.value and flag.startswith("--") and not one.optional else ""
            specs.append(_quoted(f"{alone}{flag}{long}[{_zsh_text(one.about)}]{takes}"))
    return [
        "        _arguments -s \\",
        *(f"            {spec} \\" for spec in specs[:-1]),
        f"            {specs[-1]}",
    ]


def _zsh_value(one: Argument) -> str:
    if one.path:
        return "_files"
    return f"({' '.join(word for word, _ in one.words)})" if one.words else " "


def _zsh_text(text: str) -> str:
    for sign in "\\[]:":
        text = text.replace(sign, f"\\{sign}")
    return text


def _colons(text: str) -> str:
    return text.replace("\\", "\\\\").replace(":", "\\:")


# ---- fish


def fish(commands: Sequence[DescribedCommand]) -> str:
    """Return the script for fish."""
    top, *named = commands
    names = " ".join(one.name for one in named)
    nothing = f"not __fish_seen_subcommand_from {names}"
    lines = [
        "# Completion of stalltop for fish: stalltop completion fish | source",
        "complete -c stalltop -f",
    ]
    lines += [
        f"complete -c stalltop -n '{nothing}' -a {command.name} -d {_fish(command.summary)}"
        for command in named
    ]
    lines += [_fish_option(nothing, one) for one in (*top.options, *_without(commands).options[1:])]
    for command in named:
        seen = f"__fish_seen_subcommand_from {command.name}"
        for one in command.arguments:
            if one.flags:
                lines.append(_fish_option(seen, one))
            elif one.path:
                lines.append(f"complete -c stalltop -n '{seen}' -F")
            elif one.words:
                lines.append(f"complete -c stalltop -n '{seen}' -a {_fish(_fish_words(one.words))}")
    return "\n".join(lines) + "\n"


def _fish_option(condition: str, one: Argument) -> str:
    flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in one.flags)
    value = ""
    if one.value and (one.words or not one.optional):
        value = " -r -F" if one.path else " -x"
    elif one.path:
        value = " -F"
    if one.words:
        value += f" -a {_fish(_fish_words(one.words))}"
    return f"complete -c stalltop -n '{condition}' {flags}{value} -d {_fish(one.about)}"


def _fish_words(words: Sequence[Word]) -> str:
    # fish evaluates this text as a list of words; a description follows a tab.
    return " ".join(_fish(f"{word}\t{about}") if about else word for word, about in words)


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


SHELLS: Final[dict[str, Callable[[Sequence[DescribedCommand]], str]]] = {
    "bash": bash,
    "zsh": zsh,
    "fish": fish,
}
"""The shells for which there is a script, and the functions that make the scripts."""
