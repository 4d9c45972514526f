"""A stand-in for NCCL's RAS: answers its line protocol with a status in the documented format.

As a program, ``python stand_in.py FILE`` serves the status that is in ``FILE`` on the real port.
"""

from __future__ import annotations

import json
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

PORT: Final = 28028
NO_COUNTS: Final = dict.fromkeys(
    ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "SendRecv", "Send", "Recv"), 0
)


def rank(number: int, pid: int, host: str = "127.0.0.1", **counts: int) -> dict[str, Any]:
    """Returns a rank; ``counts`` are the numbers of its operations."""
    return {
        "rank": number,
        "host": host,
        "pid": pid,
        "cuda_dev": 0,
        "nvml_dev": 0,
        "status": {
            "init_state": 0,
            "async_error": 0,
            "finalize_called": False,
            "destroy_flag": False,
            "abort_flag": False,
        },
        "collective_counts": NO_COUNTS | counts,
    }


def communicator(nccl_hash: int, size: int, ranks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns a communicator."""
    return {
        "hash": f"{nccl_hash:#x}",
        "secondary_hash": "0x1c35b1:0x7f7",
        "size": size,
        "ranks_count": len(ranks),
        "missing_ranks_count": size - len(ranks),
        "ranks": list(ranks),
        "missing_ranks": [],
    }


def status(*communicators: Mapping[str, Any]) -> bytes:
    """Returns the answer to STATUS."""
    answer = {
        "nccl_version": "2.28.7",
        "cuda_runtime_version": 12090,
        "cuda_driver_version": 13000,
        "timestamp": "2026-11-29 14:00:00",
        "communicators_count": len(communicators),
        "communicators": list(communicators),
        "ras": {"collection_time_sec": 0.012, "timeouts_count": 0},
    }
    return json.dumps(answer, indent=2).encode() + b"\n"


class _RasServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, answer: Callable[[], bytes], port: int, *, knows_json: bool) -> None:
        self.answer = answer
        self.knows_json = knows_json
        super().__init__(("127.0.0.1", port), _RasHandler)


class _RasHandler(socketserver.StreamRequestHandler):
    server: _RasServer

    def handle(self) -> None:
        as_json = False
        for line in self.rfile:
            command = line.decode().strip().lower()
            if command.startswith("client protocol "):
                self.wfile.write(b"SERVER PROTOCOL 2\n")
            elif command.startswith("timeout "):
                self.wfile.write(b"OK\n")
            elif command == "set format json" and self.server.knows_json:
                as_json = True
                self.wfile.write(b"OK\n")
            elif command == "status":
                self.wfile.write(self.server.answer() if as_json else b"NCCL version 2.24.3\n")
                return
            else:
                self.wfile.write(f"ERROR: Unknown command {command}\n".encode())


@contextmanager
def served(answer: Callable[[], bytes], *, knows_json: bool = True) -> Iterator[int]:
    """Serves ``answer`` on a free port, and yields the port."""
    with _RasServer(answer, 0, knows_json=knows_json) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


if __name__ == "__main__":
    with _RasServer(Path(sys.argv[1]).read_bytes, PORT, knows_json=True) as real:
        print("serves", flush=True)
        real.serve_forever()
