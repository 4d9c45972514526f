"""Answers inference requests by HTTP (aiohttp): a thread runs them in batches on the device. If --features
gives the port of a feature server, the program first asks that server by HTTP for each request."""

import argparse
import asyncio
import queue
import threading

import aiohttp
import control
import gpu
from aiohttp import web

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--features", type=int, default=0)
chosen = parser.parse_args()
waiting = queue.Queue()


def run_batches() -> None:
    """Runs the waiting requests on the device, up to eight of them as a batch, again and again."""
    while True:
        batch = [waiting.get()]
        while len(batch) < 8 and not waiting.empty():
            batch.append(waiting.get())
        gpu.step()
        for loop, answer in batch:
            loop.call_soon_threadsafe(answer.set_result, None)


async def infer(request: web.Request) -> web.Response:
    """Answers one request."""
    if chosen.features:
        url = f"http://127.0.0.1:{chosen.features}/"
        async with request.app["session"].get(url) as answer:
            await answer.read()
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    waiting.put((loop, done))
    await done
    return web.Response(text="done")


async def begin(app: web.Application) -> None:
    """Makes the HTTP client with which the server asks the feature server."""
    app["session"] = aiohttp.ClientSession()
    control.ready()


threading.Thread(target=run_batches, name="batches", daemon=True).start()
made = web.Application()
made.on_startup.append(begin)
made.router.add_get("/", infer)
web.run_app(made, host="127.0.0.1", port=chosen.port, print=None)
