"""Sends requests by HTTP (aiohttp) at random times. Number 0 of the control file is the mean number of
requests per second."""

import argparse
import asyncio
import random

import aiohttp
import control


async def ask(session: aiohttp.ClientSession, url: str) -> None:
    """Sends one request and reads its answer."""
    async with session.get(url) as answer:
        await answer.read()


async def main() -> None:
    """Sends requests until it is killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    url = f"http://127.0.0.1:{parser.parse_args().port}/"
    control.ready()
    async with aiohttp.ClientSession() as session:
        going = set()
        while True:
            await asyncio.sleep(random.expovariate(control.number()))
            task = asyncio.create_task(ask(session, url))
            going.add(task)
            task.add_done_callback(going.discard)


asyncio.run(main())
