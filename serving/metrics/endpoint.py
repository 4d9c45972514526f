"""HTTP server for scrapes: one path, checked access, and a bounded number of connections.

The server of the library prometheus_client is not used: it knows no token, and a client that connects and
stays silent during the TLS handshake stops it.
"""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from stalltop.formats.metrics.exposition import OPENMETRICS, PLAIN, Exposition
from stalltop.formats.metrics.native import MEDIA_TYPE, PROTOBUF, NativeExposition
from stalltop.serving.access import Access

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

Fill = Callable[[Exposition], object]
FillNative = Callable[[NativeExposition], object]

PATH: Final = "/metrics"
PATIENCE_SECONDS: Final = 10.0
"""Longest wait for a client: for its handshake, each read, and each write. Prometheus gives up after ten
seconds by default, too."""
MOST_CONNECTIONS: Final = 16
"""Connections at a time; further ones are closed at once. A pair of Prometheus servers needs two."""
_COMPRESSION: Final = 6
"""Level of gzip: with 9, a scrape of 40,000 samples takes twice the time, and is 5 % smaller."""


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """Where the endpoint listens, and who may read it."""

    address: str
    """IP address to listen on."""
    port: int
    """TCP port; 0: any free one."""
    access: Access
    needs_token: bool
    """Whether requests must have the token of ``access``. Otherwise they must name one of its hosts, so that
    no page in a browser on this host can read the metrics under a name that leads here (DNS rebinding)."""
    tls: ssl.SSLContext | None = None


class MetricsEndpoint:
    """Serves metrics in threads."""

    def __init__(self, fill: Fill, options: EndpointOptions, native: FillNative | None = None) -> None:
        """Starts to listen. Raises OSError if that is not possible. ``fill`` adds all series to the
        exposition of a scrape, ``native`` to one with native histograms; None: there are none."""
        self._server = _Server(options)
        self._server.set_app(_guarded(fill, options, native))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="stalltop-metrics", daemon=True
        )

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Answers requests from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Answers no further requests."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


def _guarded(fill: Fill, options: EndpointOptions, native: FillNative | None) -> WSGIApplication:
    """Returns the application that answers scrapes of the one path, behind the check of access."""

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if options.needs_token:
            scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
            if scheme.lower() != "bearer" or not options.access.is_token(token.strip()):
                return _refused(start, "401 Unauthorized", "this endpoint needs its token", _CHALLENGE)
        elif not options.access.is_host(environ.get("HTTP_HOST")):
            return _refused(start, "421 Misdirected Request", "this endpoint has another host name")
        if environ["PATH_INFO"] != PATH:
            return _refused(start, "404 Not Found", f"the metrics are at {PATH}")
        kind, body = _written(fill, native, environ.get("HTTP_ACCEPT", ""))
        headers = [("Content-Type", kind)]
        if "gzip" in environ.get("HTTP_ACCEPT_ENCODING", ""):
            body = gzip.compress(body, _COMPRESSION)
            headers.append(("Content-Encoding", "gzip"))
        start("200 OK", headers)
        return [body]

    return answer


def _written(fill: Fill, native: FillNative | None, wanted: str) -> tuple[str, bytes]:
    """Returns content type and content of a scrape. Prometheus has the protobuf format in ``wanted`` only if
    it takes native histograms."""
    if native is not None and MEDIA_TYPE in wanted:
        message = NativeExposition()
        native(message)
        return PROTOBUF, message.content()
    kind = OPENMETRICS if OPENMETRICS.partition(";")[0] in wanted else PLAIN
    made = Exposition(openmetrics=kind is OPENMETRICS)
    fill(made)
    return kind, made.text().encode()


_CHALLENGE: Final = ("WWW-Authenticate", "Bearer")


def _refused(start: StartResponse, status: str, reason: str, *headers: tuple[str, str]) -> Iterable[bytes]:
    start(status, [("Content-Type", "text/plain; charset=utf-8"), *headers])
    return [f"{reason}\n".encode()]


class _Handler(WSGIRequestHandler):
    timeout = PATIENCE_SECONDS

    def log_message(self, *_: Any) -> None:
        """Logs nothing: a line for every scrape helps nobody."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, options: EndpointOptions) -> None:
        self.address_family = socket.AF_INET6 if ":" in options.address else socket.AF_INET
        self._tls = options.tls
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__((options.address, options.port), _Handler)

    def server_bind(self) -> None:
        """Binds the socket without asking a name server for the name of this host, as the base class does."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(PATIENCE_SECONDS)
        if self._tls is None:
            super().finish_request(request, client_address)
            return
        with self._tls.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, *_: Any) -> None:
        """Ignores connections that fail: that is the client's matter."""
