"""Writes the sessions in docs/mcp.md: ``python scripts/agent_sessions.py [SCENARIO …]``. Needs root, and a
machine without other load.

A loop stands for the model: it calls tools of ``stalltop mcp`` through the SDK's client, and knows nothing
but their answers. The tenants are those of ``stalltop demo``: real programs, which every reader can run.
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
_TRIES: Final = 120
"""Seconds to wait for a problem; those of the demo begin after some seconds."""
_PATIENCE: Final = 30
"""Seconds after which a problem is taken that nobody else causes."""
_SURE: Final = 0.5
"""Least confidence of a problem that is looked into first."""
_MOST_PARTS: Final = 4
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


async def investigated(client: Client) -> list[ToolCall]:
    """Looks for who slows whom: takes the worst problem that somebody else causes, explains it, and looks
    where the victim's time went. If the culprit is slowed itself, goes on with that problem."""
    listed, worst = await _lasting(client)
    problem: dict[str, Any] | None = worst
    calls, seen = [listed], set[str]()
    while problem is not None:
        seen.add(problem["id"])
        calls.append(await called(client, "explain", problem=problem["id"]))
        calls.append(await called(client, "row", matching=f'container:"{problem["victim"].strip("⟦⟧")}"'))
        problem = next(
            (
                one
                for one in listed.answer["problems"]
                if one["open"] and one["victim"] == problem["culprit"] and one["id"] not in seen
            ),
            None,
        )
    return calls


async def _lasting(client: Client) -> tuple[ToolCall, dict[str, Any]]:
    """Waits for a problem that two answers in a row have; prefers one that somebody else causes, and of these
    the worst."""
    before = ""
    for second in range(_TRIES):
        listed = await called(client, "problems")
        problems = [one for one in listed.answer["problems"] if one["open"]]
        caused = [
            one
            for one in problems
            if one["culprit"] not in ("not known", "several", one["victim"]) and one["confidence"] >= _SURE
        ]
        found = next(iter(caused or (problems if second >= _PATIENCE else [])), None)
        if found is not None and found["id"] == before:
            return listed, found
        before = "" if found is None else found["id"]
        await asyncio.sleep(1.0)
    raise RuntimeError(f"no problem within {_TRIES} s")


def verdict(calls: list[ToolCall]) -> dict[str, Any]:
    """Returns the problem at which a session ended."""
    found: dict[str, Any] = [one for one in calls if one.name == "explain"][-1].answer["problem"]
    return found


def transcript(scenario: str, calls: list[ToolCall]) -> str:
    """Returns a session as Markdown: the figures of the answers that the next step needs."""
    problem = verdict(calls)
    lines = [f"> {QUESTION}", ""]
    for call in calls:
        told = ", ".join(f'{name}="{value}"' for name, value in call.arguments.items())
        lines += textwrap.wrap(f"{call.name}({told})", _WIDTH, subsequent_indent="  ")
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
    return f"### {scenario}\n\n`sudo stalltop mcp --demo {scenario}`\n\n```text\n{body}\n```\n"


def _answer(call: ToolCall) -> list[str]:
    if call.name == "problems":
        return [line for one in call.answer["problems"] for line in textwrap.wrap(one["sentence"], _WIDTH)]
    if call.name == "explain":
        return [line for text in call.answer["text"] for line in _folded(str(text))]
    parts = sorted(call.answer["parts_ms"].items(), key=lambda part: -part[1])[:_MOST_PARTS]
    lines = [
        f"{call.answer['calls']} calls, {call.answer['time_ms']:.0f} ms: "
        + ", ".join(f"{name} {ms:.0f} ms" for name, ms in parts)
    ]
    lines += [
        f"{one['part']} {one['ms']:.0f} ms: {one['culprit']} ({one['process']})"
        for one in call.answer["taken_by"][:_MOST_PARTS]
    ]
    return lines


def _folded(line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()) + 6)
    return textwrap.wrap(line, _WIDTH, subsequent_indent=indent, drop_whitespace=True) or [""]


async def session(scenario: str) -> list[ToolCall]:
    """Starts the tenants of a scenario, and looks for who slows whom."""
    async with Client(command("--demo", scenario, "--no-state")) as client:
        return await investigated(client)


def written(document: str, scenario: str, text: str) -> str:
    """Returns the document with a new session in place of the one of this scenario."""
    from scripts.write_keys import with_table

    return with_table(document, f"session {scenario}", text)


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    page = ROOT / "docs" / "mcp.md"
    for one in sys.argv[1:] or SCENARIOS:
        found = transcript(one, asyncio.run(session(one)))
        page.write_text(written(page.read_text(encoding="utf-8"), one, found), encoding="utf-8")
