"""Computes batches and hands them to a trainer over ZeroMQ. Number 0 of the control file is the computing
time of a batch, ms."""

import argparse
import time

import control
import numpy
import zmq

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, required=True)
push = zmq.Context().socket(zmq.PUSH)
push.set_hwm(4)
push.bind(f"tcp://127.0.0.1:{parser.parse_args().port}")
control.ready()
while True:
    until = time.thread_time() + control.number() / 1e3
    values = numpy.random.default_rng().random(4096)
    while time.thread_time() < until:
        numpy.sin(values)
    push.send(values)
