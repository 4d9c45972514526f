"""Hands batches over by ZeroMQ. With --role produce, computes them: number 0 of the control file is the
computing time of a batch, ms. With --role train, makes a step on the device with each batch."""

import argparse
import time

import control
import numpy
import zmq

_AHEAD = 4
"""Maximum number of batches that wait on each side."""


def produce(port: int) -> None:
    """Computes batches and hands them over."""
    push = zmq.Context().socket(zmq.PUSH)
    push.set_hwm(_AHEAD)
    push.bind(f"tcp://127.0.0.1:{port}")
    control.ready()
    while True:
        until = time.thread_time() + control.number() / 1e3
        values = numpy.random.default_rng().random(4096)
        while time.thread_time() < until:
            numpy.sin(values)
        push.send(values)


def train(port: int) -> None:
    """Trains on the batches."""
    import gpu

    pull = zmq.Context().socket(zmq.PULL)
    pull.set_hwm(_AHEAD)
    pull.connect(f"tcp://127.0.0.1:{port}")
    steps = 0
    while True:
        pull.recv()
        gpu.step()
        steps += 1
        if steps == 20:
            control.ready()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--role", choices=("produce", "train"), required=True)
    parser.add_argument("--port", type=int, required=True)
    chosen = parser.parse_args()
    (produce if chosen.role == "produce" else train)(chosen.port)
