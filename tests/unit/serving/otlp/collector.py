"""A receiver made of the official classes of the protocol."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import threading
from collections.abc import Iterator
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from tests.unit.serving.notify.web import KeptRequests

_KINDS: dict[str, tuple[Any, Any]] = {
    "/v1/metrics": (ExportMetricsServiceRequest, ExportMetricsServiceResponse),
    "/v1/logs": (ExportLogsServiceRequest, ExportLogsServiceResponse),
}


class Collected(KeptRequests):
    """What the receiver was sent: messages, not JSON. ``status`` is that of the next answers."""

    def __init__(self) -> None:
        super().__init__()
        self.status = 200
        self.answers: dict[str, Any] = {}
        """Answer by path; by default an empty one."""
        self.sent_headers: dict[str, str] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def collector(port: int = 0) -> Iterator[Collected]:
    collected = Collected()

    class CollectorHandler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Type"] == "application/x-protobuf"
            assert self.headers["Content-Encoding"] == "gzip"
            request, response = _KINDS[self.path]
            message = request.FromString(gzip.decompress(content))
            status = collected.status
            with collected.changed:
                collected.sent_headers = dict(self.headers)
                collected.tries += 1
                if status == 200:
                    collected.got.append((self.path, message))
                collected.changed.notify_all()
            body = collected.answers.get(self.path, response()).SerializeToString()
            self.send_response(status)
            for name, value in collected.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    http.server.ThreadingHTTPServer.allow_reuse_address = True
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), CollectorHandler)
    collected.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield collected
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
