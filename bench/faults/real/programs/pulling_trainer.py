"""Trains on batches that another program hands over by ZeroMQ."""

import argparse

import control
import gpu
import zmq

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, required=True)
pull = zmq.Context().socket(zmq.PULL)
pull.set_hwm(4)
pull.connect(f"tcp://127.0.0.1:{parser.parse_args().port}")
steps = 0
while True:
    pull.recv()
    gpu.step()
    steps += 1
    if steps == 20:
        control.ready()
