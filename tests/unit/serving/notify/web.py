"""An HTTP server that keeps what it is sent."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any


class KeptRequests:
    """The requests so far. ``answer`` is the status of the next answers."""

    def __init__(self) -> None:
        self.port = 0
        self.answer = 200
        self.headers: dict[str, str] = {}
        """Headers of the next answers."""
        self.got: list[tuple[str, Any]] = []
        """Path and JSON of each request that was answered with 200."""
        self.tries = 0
        self.changed = threading.Condition()

    def wait(self, count: int) -> list[tuple[str, Any]]:
        """Waits for ``count`` requests, and returns all."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.got) >= count, 100)
            return list(self.got)

    def wait_for_tries(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.tries >= count, 100)


@contextlib.contextmanager
def web_server() -> Iterator[KeptRequests]:
    kept = KeptRequests()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert self.headers["Content-Type"] == "application/json"
            answer = kept.answer
            with kept.changed:
                kept.tries += 1
                if answer == 200:
                    kept.got.append((self.path, content))
                kept.changed.notify_all()
            self.send_response(answer)
            for name, value in kept.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"said")

        def log_message(self, *_: Any) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
