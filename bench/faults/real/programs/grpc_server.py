"""Answers inference requests by gRPC. A thread collects requests into batches and runs each batch on the
device. If --features gives the port of a feature server, the thread first asks that server by gRPC. Another
Python thread computes while number 0 of the control file is above 0."""

import argparse
import queue
import threading
import time
from concurrent import futures

import control
import gpu
import grpc

_BATCH = 8
waiting = queue.Queue()


def infer(request: bytes, _: grpc.ServicerContext) -> bytes:
    """Answers one request, after the batch with this request has run."""
    done = futures.Future()
    waiting.put((request, done))
    return done.result()


def run_batches(features: int) -> None:
    """Runs the waiting requests on the device, up to eight of them as a batch, again and again."""
    ask = None
    if features:
        ask = grpc.insecure_channel(f"127.0.0.1:{features}").unary_unary("/features/Get")
    while True:
        batch = [waiting.get()]
        while len(batch) < _BATCH and not waiting.empty():
            batch.append(waiting.get())
        if ask is not None:
            ask(b"".join(request for request, _ in batch))
        gpu.step()
        for request, done in batch:
            done.set_result(request)


def compute() -> None:
    """Computes in Python, which holds the interpreter's lock."""
    number = 0
    while True:
        if not control.number():
            time.sleep(0.05)
            continue
        for _ in range(100_000):
            number = (number * 1103515245 + 12345) & 0x7FFFFFFF


def main() -> None:
    """Serves until it is killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--features", type=int, default=0)
    chosen = parser.parse_args()
    handlers = {"Infer": grpc.unary_unary_rpc_method_handler(infer)}
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2 * _BATCH))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("inference", handlers),))
    server.add_insecure_port(f"127.0.0.1:{chosen.port}")
    server.start()
    threading.Thread(target=compute, name="metrics", daemon=True).start()
    threading.Thread(target=run_batches, args=(chosen.features,), name="batches", daemon=True).start()
    control.ready()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
