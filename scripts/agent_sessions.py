"""Writes the sessions in docs/mcp.md: ``python scripts/agent_sessions.py``.

A loop stands for the model: it calls tools of ``stalltop mcp`` through the SDK's client, and knows nothing
but their answers. Each session is on simulated tenants, so that every reader can repeat it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import textwrap
from pathlib import Path
from typing import Any, Final, NamedTuple

from mcp import Client, StdioServerParameters

ROOT: Final = Path(__file__).resolve().parent.parent
SCENARIOS: Final = ("noisy-neighbour", "slow-disk", "straggler")
QUESTION: Final = "GPU jobs are slow on this host. Who slows whom, and what helps?"
_TRIES: Final = 90
"""Seconds to wait for a problem; problems of the demo begin after some seconds."""
_WIDTH: Final = 116


class ToolCall(NamedTuple):
    """A call of a tool and its answer."""

    name: str
    arguments: dict[str, Any]
    answer: dict[str, Any]


def command(*arguments: str) -> StdioServerParameters:
    """Returns how to start ``stalltop mcp`` of this checkout."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return StdioServerParameters(
        command=sys.executable, args=["-P", "-m", "stalltop", "mcp", *arguments], env=environment, cwd=ROOT
    )


async def called(client: Client, name: str, **arguments: Any) -> ToolCall:
    """Calls a tool. Raises RuntimeError if it fails."""
    result = await client.call_tool(name, arguments)
    text = result.content[0].text  # type: ignore[union-attr]
    if result.is_error:
        raise RuntimeError(text)
    return ToolCall(name, arguments, json.loads(text))


async def investigated(client: Client, cause: str = "", culprit: str = "") -> list[ToolCall]:
    """Follows the worst problem to its root: problems, explain, and the rows of its victim. ``cause`` and
    ``culprit``: of the problem to wait for, on a host where others are busy, too; '': any."""
    for _ in range(_TRIES):
        listed = await called(client, "problems")
        found = [
            one
            for one in listed.answer["problems"]
            if one["open"] and cause in ("", one["cause"]) and culprit in ("", one["culprit"].strip("⟦⟧"))
        ]
        if found:
            break
        await asyncio.sleep(1.0)
    else:
        raise RuntimeError(f"no problem within {_TRIES} s")
    worst = found[0]
    explained = await called(client, "explain", problem=worst["id"])
    victim = worst["victim"].strip("⟦⟧")
    rows = await called(client, "rows", matching=f'container:"{victim}"', limit=3)
    return [listed, explained, rows]


def transcript(scenario: str, calls: list[ToolCall]) -> str:
    """Returns a session as Markdown: the figures of the answers that the next step needs."""
    problem = calls[1].answer["problem"]
    lines = [f"> {QUESTION}", ""]
    for call in calls:
        told = ", ".join(f'{name}="{value}"' for name, value in call.arguments.items())
        lines.append(f"{call.name}({told})")
        lines += [f"  {line}" for line in _answer(call)]
    remedy = next(
        (one for one in problem["remedies"] if one["command"]), {"command": None, "text": "none known"}
    )
    lines += [
        "",
        *textwrap.wrap(
            f"Verdict: {problem['culprit']} slows {problem['victim']} ({problem['title']}, confidence "
            f"{problem['confidence']:g}). Helps: {remedy['text']}"
            + (f" ({remedy['command']})" if remedy["command"] else ""),
            _WIDTH,
        ),
    ]
    body = "\n".join(lines)
    return f"### {scenario}\n\n`stalltop mcp --simulated {scenario}`\n\n```text\n{body}\n```\n"


def _answer(call: ToolCall) -> list[str]:
    if call.name == "problems":
        return [line for one in call.answer["problems"] for line in textwrap.wrap(one["sentence"], _WIDTH)]
    if call.name == "explain":
        return [line for text in call.answer["text"] for line in _folded(str(text))]
    return [
        f"{one['container']} {one['operation']}: {one['calls']} calls, p99 {one['p99_us']:g} µs"
        for one in call.answer["rows"]
    ]


def _folded(line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()) + 6)
    return textwrap.wrap(line, _WIDTH, subsequent_indent=indent, drop_whitespace=True) or [""]


async def sessions() -> str:
    """Returns all sessions."""
    parts = []
    for scenario in SCENARIOS:
        async with Client(command("--simulated", scenario, "--no-state")) as client:
            parts.append(transcript(scenario, await investigated(client)))
    return "\n".join(parts)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))
    from scripts.write_keys import with_table

    document = ROOT / "docs" / "mcp.md"
    found = asyncio.run(sessions())
    document.write_text(with_table(document.read_text(encoding="utf-8"), "sessions", found), encoding="utf-8")
