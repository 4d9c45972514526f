"""Requests to a host, through NATS's service API, so that `nats micro` and permissions know them.

A request is a JSON object with ``what``: ``windows`` asks for whole windows for the next half minute;
``window`` asks for one window that ends at ``at`` (Unix seconds) and is ``seconds`` long; ``query`` asks for
the answer to ``sql`` on the host's recording. The answer is a message of a window, or a JSON object.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from nats.aio.client import Client
from nats.micro import add_service
from nats.micro.request import Request

from stalltop.fleet.messages.window_message import encoded_window
from stalltop.fleet.subjects import INBOX, asking
from stalltop.model.errors import StalltopError, described
from stalltop.model.fleet.host_summary import HostAddress
from stalltop.model.window import Window

SERVICE: Final = "stalltop-host"
"""Name of the service; the host is in its metadata."""
MOST_ASKED: Final = 16 << 10
"""Longest request, in bytes."""
_MOST_SECONDS: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class HostAnswers:
    """What a host can say about its past; None: it has no recording. Called in threads."""

    window: Callable[[float, float], Window | None] | None = None
    """Returns the window that ends at a Unix time and has a length, s; None if there is none."""
    query: Callable[[str], dict[str, Any]] | None = None
    """Returns the answer to SQL. Raises StalltopError."""


NO_ANSWERS: Final = HostAnswers()
"""Of a host without a recording."""


class AnswerError(ValueError):
    """The request cannot be answered; the message says why."""


async def serve_requests(
    client: Client,
    address: HostAddress,
    answers: HostAnswers,
    program: str,
    lease: Callable[[], object],
    say: Callable[[str], object],
) -> None:
    """Answers requests to ``address`` from now on. ``lease`` is called when somebody asks for windows;
    ``say`` gets a line about each other request."""
    most = int(client.max_payload) - 4096

    async def handle(request: Request) -> None:
        # Whoever asks chooses the subject of the answer, such as one that only this host may publish on.
        if not request._msg.reply.startswith(INBOX):
            return
        try:
            asked = _asked(request.data)
            if asked["what"] == "windows":
                lease()
                await request.respond(b"{}")
                return
            said = request.headers.get("St-User", "somebody") if request.headers else "somebody"
            say(f"{said[:80]!r} asks for: {asked['what']}")
            content = await asyncio.get_running_loop().run_in_executor(None, _answer, asked, answers, most)
            await request.respond(content)
        except (AnswerError, StalltopError) as error:
            await request.respond_error("400", str(error).replace("\n", "; ")[:500])
        except Exception as error:
            await request.respond_error("500", described(error)[:500])

    service = await add_service(
        client,
        name=SERVICE,
        version=_semantic(program),
        description="the windows and the recording of a host",
        metadata=dict(zip(("cluster", "rack", "host"), address, strict=True)),
    )
    await service.add_endpoint(name="ask", subject=asking(address), handler=handle)


def _semantic(program: str) -> str:
    """Returns the version as the service API wants it: three numbers."""
    numbers = program.split("+")[0].split(".")
    return ".".join(numbers) if len(numbers) == 3 and all(map(str.isdecimal, numbers)) else "0.0.0"


def _asked(content: bytes) -> dict[str, Any]:
    if len(content) > MOST_ASKED:
        raise AnswerError("the request is too long")
    try:
        asked = json.loads(content)
    except (ValueError, RecursionError):
        raise AnswerError("the request is no JSON") from None
    if not isinstance(asked, dict) or asked.get("what") not in ("windows", "window", "query"):
        raise AnswerError("the request needs what: windows, window or query")
    return asked


def _answer(asked: dict[str, Any], answers: HostAnswers, most: int) -> bytes:
    if asked["what"] == "query":
        if answers.query is None:
            raise AnswerError("this host has no recording")
        sql = asked.get("sql")
        if not isinstance(sql, str):
            raise AnswerError("the request has no sql")
        content = json.dumps(answers.query(sql)).encode()
        if len(content) > most:
            raise AnswerError(f"the answer has {len(content):,} bytes, more than {most:,}; use LIMIT")
        return content
    if answers.window is None:
        raise AnswerError("this host has no recording")
    at, seconds = asked.get("at"), asked.get("seconds", 10.0)
    if not all(isinstance(one, int | float) and abs(one) < 1e12 for one in (at, seconds)):
        raise AnswerError("at and seconds must be numbers")
    window = answers.window(float(at or 0.0), min(max(float(seconds), 1.0), _MOST_SECONDS))
    if window is None:
        raise AnswerError("the recording of this host does not have this moment")
    return encoded_window(window, most)
