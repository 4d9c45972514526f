"""Sends requests by gRPC at random times. Number 0 of the control file is the mean number of requests per
second."""

import argparse
import random
import time

import control
import grpc

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, required=True)
channel = grpc.insecure_channel(f"127.0.0.1:{parser.parse_args().port}")
infer = channel.unary_unary("/inference/Infer")
control.ready()
going = set()
while True:
    time.sleep(random.expovariate(control.number()))
    answer = infer.future(b"x" * 1024)
    going.add(answer)
    answer.add_done_callback(going.discard)
