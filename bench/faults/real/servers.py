"""Faults of inference servers with dynamic batches, under a load generator in another container."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bench.faults.real.loaders import QUICK_MS
from bench.faults.real.running import RealProgram, free_port
from bench.faults.stage.fault import Truth, fault
from bench.faults.stage.stage import Stage

REQUESTS: Final = 40.0
"""Requests per second that a load generator sends."""


@fault("remote_service", "http-asks")
def http_asks(stage: Stage) -> Iterator[Truth]:
    """An inference server (aiohttp, dynamic batches) waits for a feature server in another container."""
    victim, features, clients = stage.tenant("victim"), stage.tenant("features"), stage.tenant("clients")
    port, own = free_port(), free_port()
    asked = RealProgram(stage, features, "http_features.py", "--port", str(port), numbers=(QUICK_MS,))
    RealProgram(stage, victim, "http_server.py", "--port", str(own), "--features", str(port))
    RealProgram(stage, clients, "http_load.py", "--port", str(own), numbers=(REQUESTS,))
    yield Truth(victim, features)
    asked.change(stage.between("ms", 30, 60))


@fault("remote_service", "grpc-asks")
def grpc_asks(stage: Stage) -> Iterator[Truth]:
    """The thread of a gRPC server that prepares batches asks a feature server in another container, which
    computes for 30 to 80 ms."""
    victim, features, clients = stage.tenant("victim"), stage.tenant("features"), stage.tenant("clients")
    port, own = free_port(), free_port()
    asked = RealProgram(stage, features, "grpc_features.py", "--port", str(port), numbers=(QUICK_MS,))
    RealProgram(stage, victim, "grpc_server.py", "--port", str(own), "--features", str(port))
    RealProgram(stage, clients, "grpc_load.py", "--port", str(own), numbers=(REQUESTS,))
    yield Truth(victim, features)
    asked.change(stage.between("ms", 30, 80))


@fault("gil", "grpc-gil")
def grpc_interpreter_lock(stage: Stage) -> Iterator[Truth]:
    """Another Python thread of a gRPC server begins to compute."""
    victim, clients = stage.tenant("victim"), stage.tenant("clients")
    own = free_port()
    server = RealProgram(stage, victim, "grpc_server.py", "--port", str(own))
    RealProgram(stage, clients, "grpc_load.py", "--port", str(own), numbers=(REQUESTS,))
    yield Truth(victim)
    server.change(1.0)
