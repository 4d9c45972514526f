"""Serves the tools by the Model Context Protocol, with the official SDK: https://modelcontextprotocol.io"""

from __future__ import annotations

import functools
import inspect
import json
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings

from stalltop.cli.agent.marking import MEANING
from stalltop.cli.agent.tools import HostTools
from stalltop.model.errors import StalltopError
from stalltop.serving.access import Access

NAMES: Final = (
    *("problems", "explain", "rows", "row", "stacks", "devices", "history", "query", "diff", "check"),
)
"""The tools; each is a method of ``HostTools``, whose docstring describes it to the model."""
INSTRUCTIONS: Final = (
    "stalltop measures, on a host with GPUs that several tenants share, where CUDA and NCCL calls lose time, "
    "and who causes it. Begin with problems, go on with explain. Nothing here changes the host: remedies are "
    f"for a person to judge. {MEANING}"
)
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def agent_server(tools: HostTools, version: str) -> MCPServer[Any]:
    """Returns a server of the tools."""
    made: MCPServer[Any] = MCPServer(
        "stalltop", instructions=INSTRUCTIONS, version=version, log_level="ERROR"
    )
    for name in NAMES:
        method = getattr(tools, name)
        made.tool(name, description=inspect.getdoc(method), structured_output=False)(_told(method))
    return made


def _told(method: Callable[..., dict[str, Any]]) -> Callable[..., Awaitable[str]]:
    """Returns ``method`` for the SDK: it runs in a thread, answers with JSON, and its errors are answers."""

    @functools.wraps(method)
    async def call(**arguments: Any) -> str:
        try:
            found = await anyio.to_thread.run_sync(functools.partial(method, **arguments))
        except StalltopError as error:
            raise ToolError(str(error)) from None
        return json.dumps(found, ensure_ascii=False)

    call.__annotations__ = {**method.__annotations__, "return": "str"}
    call.__signature__ = inspect.signature(method).replace(return_annotation=str)  # type: ignore[attr-defined]
    return call


def guarded(app: App, access: Access) -> App:
    """Returns ``app`` behind the check of the token of ``access``."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
            if scheme.lower() != "bearer" or not access.is_token(token.strip()):
                refusal = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
                await send({"type": "http.response.start", "status": 401, "headers": refusal})
                await send({"type": "http.response.body", "body": b"this server needs its token\n"})
                return
        await app(scope, receive, send)

    return answer


def serve_http(server: MCPServer[Any], listener: socket.socket, access: Access, cert: str, key: str) -> None:
    """Serves at ``/mcp`` on a listening socket until a signal ends it. ``cert`` and ``key``: PEM files for
    TLS; '': without."""
    import uvicorn

    # The token replaces the check of the Host header: a page under another name does not have it.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = guarded(server.streamable_http_app(stateless_http=True, transport_security=security), access)
    config = uvicorn.Config(
        app, log_level="error", lifespan="on", ssl_certfile=cert or None, ssl_keyfile=key or None
    )
    uvicorn.Server(config).run(sockets=[listener])
