"""Makes the streams that a NATS server has by its place in the fleet, and says which are missing."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js import api

from stalltop.fleet.connection import FleetError
from stalltop.fleet.server_place import ServerPlace, place_of
from stalltop.fleet.subjects import STREAMS, StreamPlan

ANSWER_SECONDS: Final = 2.0
"""Longest wait for an answer of JetStream. The server does not answer what it does not permit."""
LOOK_SECONDS: Final = 5.0
"""How often `keep_streams` looks for streams that are missing."""


def plans_of(place: ServerPlace) -> tuple[StreamPlan, ...]:
    """Returns the streams of a server in ``place``."""
    return tuple(plan for plan in STREAMS if plan.hub) if place.hub else STREAMS


def subject_in(plan: StreamPlan, place: ServerPlace) -> str:
    """Returns the subjects that a stream keeps on a server in ``place``."""
    return plan.subject if place.rack is None else plan.subject_of(*place.rack)


def configured(
    plan: StreamPlan, place: ServerPlace, replicas: int = 1, most_bytes: int | None = None
) -> api.StreamConfig:
    """Returns the configuration of a stream. ``most_bytes`` lowers its limit."""
    limit = plan.max_bytes if most_bytes is None else min(plan.max_bytes, most_bytes)
    return api.StreamConfig(
        name=plan.name,
        description=plan.about,
        subjects=[subject_in(plan, place)],
        storage=api.StorageType.MEMORY if plan.storage == "memory" else api.StorageType.FILE,
        max_age=plan.max_age_seconds,
        max_bytes=limit,
        max_msgs_per_subject=plan.per_subject,
        discard=api.DiscardPolicy.OLD,
        duplicate_window=min(plan.duplicate_seconds or 1.0, plan.max_age_seconds),
        num_replicas=replicas,
    )


async def make_streams(client: Client, replicas: int = 1, most_bytes: int | None = None) -> tuple[str, ...]:
    """Makes the streams that do not exist, and returns their names. Streams that exist keep their limits.

    Raises FleetError if JetStream is off, has too little storage, or does not permit it.
    """
    js = client.jetstream(timeout=ANSWER_SECONDS)
    made, place = [], place_of(client)
    for plan in plans_of(place):
        try:
            await js.stream_info(plan.name)
        except nats.js.errors.NotFoundError:
            try:
                await js.add_stream(configured(plan, place, replicas, most_bytes))
            except nats.js.errors.APIError as error:
                raise FleetError(
                    f"cannot make the stream {plan.name}: {error.description}",
                    "give JetStream more storage: max_file_store and max_memory_store in its configuration",
                ) from None
            except (nats.errors.TimeoutError, nats.errors.NoRespondersError):
                raise _refused() from None
            made.append(plan.name)
        except nats.js.errors.ServiceUnavailableError:
            raise FleetError("the NATS server runs without JetStream", "start it with -js") from None
        except (nats.errors.TimeoutError, nats.errors.NoRespondersError):
            raise _refused() from None
    return tuple(made)


async def keep_streams(client: Client) -> None:
    """Makes streams again that are missing, until it is cancelled: those in memory end with the server."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        with contextlib.suppress(FleetError, nats.errors.Error, TimeoutError):
            await make_streams(client)


def _refused() -> FleetError:
    return FleetError(
        "the NATS server does not let this user see its streams",
        "let an administrator make them: stalltop fleet check --make-streams",
    )


async def missing_streams(client: Client) -> tuple[str, ...]:
    """Returns the names of streams that do not exist. Raises FleetError as `make_streams` does."""
    js = client.jetstream(timeout=ANSWER_SECONDS)
    found = []
    for plan in plans_of(place_of(client)):
        try:
            await js.stream_info(plan.name)
        except nats.js.errors.NotFoundError:
            found.append(plan.name)
        except nats.js.errors.ServiceUnavailableError:
            raise FleetError("the NATS server runs without JetStream", "start it with -js") from None
        except (nats.errors.TimeoutError, nats.errors.NoRespondersError):
            raise _refused() from None
    return tuple(found)
