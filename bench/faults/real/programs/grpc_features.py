"""Answers requests by gRPC, one at a time. Number 0 of the control file is the computing time of a request,
ms."""

import argparse
import time
from concurrent import futures

import control
import grpc


def get(request: bytes, _: grpc.ServicerContext) -> bytes:
    """Computes the features of a batch."""
    until = time.thread_time() + control.number() / 1e3
    while time.thread_time() < until:
        sum(range(1000))
    return request


parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, required=True)
handlers = {"Get": grpc.unary_unary_rpc_method_handler(get)}
server = grpc.server(futures.ThreadPoolExecutor(max_workers=1))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("features", handlers),))
server.add_insecure_port(f"127.0.0.1:{parser.parse_args().port}")
server.start()
control.ready()
server.wait_for_termination()
