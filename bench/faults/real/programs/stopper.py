"""Stops a process by SIGSTOP for a part of each second: number 0 of the control file, 0 to 1."""

import argparse
import os
import signal
import time

import control

parser = argparse.ArgumentParser()
parser.add_argument("--pid", type=int, required=True)
pid = parser.parse_args().pid
control.ready()
while True:
    seconds = control.number()
    if seconds:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)
    time.sleep(1.0 - seconds)
