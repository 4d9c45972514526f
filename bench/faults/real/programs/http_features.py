"""Answers requests by HTTP (aiohttp), one at a time. Number 0 of the control file is the computing time of a
request, ms."""

import argparse
import time

import control
from aiohttp import web


async def answer(_: web.Request) -> web.Response:
    """Computes and answers. The server has only this thread, so other requests wait."""
    until = time.thread_time() + control.number() / 1e3
    while time.thread_time() < until:
        sum(range(1000))
    return web.Response(text="1.0")


async def begin(_: web.Application) -> None:
    """Reports that the server is ready."""
    control.ready()


parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, required=True)
made = web.Application()
made.on_startup.append(begin)
made.router.add_get("/", answer)
web.run_app(made, host="127.0.0.1", port=parser.parse_args().port, print=None)
