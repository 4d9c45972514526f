"""Answers requests over TCP, one at a time. Number 0 of the control file is the time for which the server
computes (with --sleep: sleeps) for a request, ms."""

import argparse
import selectors
import socket
import time

import control

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--sleep", action="store_true")
chosen = parser.parse_args()
listening = socket.create_server(("127.0.0.1", chosen.port))
ready = selectors.DefaultSelector()
ready.register(listening, selectors.EVENT_READ)
control.ready()
while True:
    for key, _ in ready.select():
        if key.fileobj is listening:
            ready.register(listening.accept()[0], selectors.EVENT_READ)
            continue
        if not key.fileobj.recv(1):
            ready.unregister(key.fileobj)
            key.fileobj.close()
            continue
        seconds = control.number() / 1e3
        if chosen.sleep:
            time.sleep(seconds)
        until = time.thread_time() + (0.0 if chosen.sleep else seconds)
        while time.thread_time() < until:
            sum(range(1000))
        key.fileobj.sendall(b"y")
