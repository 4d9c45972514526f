"""Requests to a host, through NATS's service API, so that `nats micro` and permissions know them.

A request is a JSON object with ``what``: ``windows`` asks for whole windows for the next half minute;
``window`` asks for the sum of the recorded windows that overlap the ``seconds`` before ``at`` (Unix seconds);
``query`` asks for the answer to ``sql`` on the host's recording, within ``seconds``. The answer is a message
of a window, whose headers say when its first part begins and its last one ends, or a JSON object. Errors have
the code 404 if nothing is recorded there, 413 if the answer is too large, and 400 or 500.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from nats.aio.client import Client
from nats.micro import add_service
from nats.micro.request import Request

from stalltop.fleet.messages.window_message import END, START, encoded_window
from stalltop.fleet.subjects import INBOX, asking
from stalltop.model.errors import StalltopError, described
from stalltop.model.fleet.host_summary import HostAddress
from stalltop.model.window import Window

SERVICE: Final = "stalltop-host"
"""Name of the service; the host is in its metadata."""
MOST_ASKED: Final = 16 << 10
"""Longest request, in bytes."""
QUERY_SECONDS: Final = 20.0
"""Longest time for the answer to SQL."""
_MOST_SECONDS: Final = 86_400.0


NOTHING, TOO_LARGE = "404", "413"
"""Codes of errors that tell more than that the host cannot answer."""


class PastWindow(NamedTuple):
    """The sum of recorded windows, between which time may be missing."""

    window: Window
    start: float
    """When the first one begins, Unix time in seconds."""
    end: float
    """When the last one ends."""
    parts: int = 1
    """Number of windows."""


@dataclass(frozen=True, slots=True)
class HostAnswers:
    """What a host can say about its past; None: it has no recording. Called in threads."""

    window: Callable[[float, float], PastWindow | None] | None = None
    """Returns the sum of the windows that overlap the time before a Unix time that has a length, s; None if
    there are none."""
    query: Callable[[str, float], dict[str, Any]] | None = None
    """Returns the answer to SQL, within a time, s. Raises StalltopError."""


NO_ANSWERS: Final = HostAnswers()
"""Of a host without a recording."""


class AnswerError(ValueError):
    """The request cannot be answered; the message says why."""

    def __init__(self, reason: str, code: str = "400", start: float | None = None) -> None:
        """``start``: the beginning of a recorded window that is too large, Unix time in seconds."""
        super().__init__(reason)
        self.code = code
        self.headers = None if start is None else {START: repr(start)}


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
            loop = asyncio.get_running_loop()
            content, headers = await loop.run_in_executor(None, _answer, asked, answers, most)
            await request.respond(content, headers=headers)
        except (AnswerError, StalltopError) as error:
            told = error if isinstance(error, AnswerError) else AnswerError(str(error))
            reason = str(error).replace("\n", "; ")[:500]
            await request.respond_error(told.code, reason, headers=told.headers)
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


def _answer(asked: dict[str, Any], answers: HostAnswers, most: int) -> tuple[bytes, dict[str, str]]:
    """Returns the content of the answer, and its headers."""
    if asked["what"] == "query":
        if answers.query is None:
            raise AnswerError("this host has no recording", NOTHING)
        sql = asked.get("sql")
        if not isinstance(sql, str):
            raise AnswerError("the request has no sql")
        (seconds,) = _numbers(asked, seconds=QUERY_SECONDS)
        content = json.dumps(answers.query(sql, min(max(seconds, 0.01), QUERY_SECONDS))).encode()
        if len(content) > most:
            reason = f"the answer has {len(content):,} bytes, more than {most:,}; use LIMIT"
            raise AnswerError(reason, TOO_LARGE)
        return content, {}
    if answers.window is None:
        raise AnswerError("this host has no recording", NOTHING)
    at, seconds = _numbers(asked, at=math.nan, seconds=10.0)
    found = answers.window(at, min(max(seconds, 0.1), _MOST_SECONDS))
    if found is None:
        raise AnswerError("the recording of this host has no windows of that time", NOTHING)
    try:
        # Of a sum that is too large, the parts can be asked for.
        content = encoded_window(found.window, most, whole=found.parts > 1)
    except StalltopError as error:
        start = found.start if found.parts == 1 else None
        raise AnswerError(error.reason, TOO_LARGE, start) from None
    return content, {START: repr(found.start), END: repr(found.end)}


def _numbers(asked: dict[str, Any], **defaults: float) -> list[float]:
    """Returns the values of ``asked`` with these names. Raises AnswerError."""
    found = [asked.get(name, default) for name, default in defaults.items()]
    if not all(isinstance(one, int | float) and abs(one) < 1e12 for one in found):
        raise AnswerError(f"{' and '.join(defaults)} must be numbers")
    return [float(one) for one in found]
