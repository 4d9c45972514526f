"""Tests that connections last while the credentials of their users are replaced."""

from __future__ import annotations

import time
from pathlib import Path

import nkeys
import pytest

from stalltop.fleet.connection import (
    RECONNECT_SECONDS,
    ConnectionListener,
    FleetLoop,
    ServerAccess,
    close,
    connected,
)
from stalltop.fleet.lasting_client import LastingClient
from stalltop.fleet.local_server import LocalServer
from stalltop.model.fleet.host_summary import HostAddress
from tests.unit.fleet.clients import agent, second, until, watching
from tests.unit.fleet.shipped import Authority


def seed(number: int) -> bytes:
    """Returns a secret nkey of a user."""
    return bytes(nkeys.encode_seed(bytes([number]) * 32, nkeys.PREFIX_BYTE_USER))


def users(*numbers: int) -> str:
    """Returns the configuration of a server that knows these users."""
    keys = (nkeys.from_seed(bytearray(seed(number))).public_key.decode() for number in numbers)
    return f"authorization {{ users: [{', '.join(f'{{nkey: {key}}}' for key in keys)}] }}"


pytestmark = pytest.mark.timeout(400)


@pytest.mark.parametrize("between", [None, b"", b"SUAnoseed"])
def test_an_agent_and_a_screen_go_on_with_new_keys(tmp_path: Path, between: bytes | None) -> None:
    file = tmp_path / "user.nk"
    file.write_bytes(seed(1))
    of_agent, of_screen = list[str](), list[str]()
    with LocalServer(configuration=users(1)) as server:
        access = ServerAccess((server.url,), nkey=file)
        with (
            agent(access, HostAddress("prod", "r1", "n1"), of_agent) as made,
            watching(access, "prod", say=of_screen.append) as watch,
        ):
            made.take(second(0))
            until(lambda: made.sent == 1)
            server.reload(users(2))
            until(lambda: said_in(of_agent, "tries again") and said_in(of_screen, "tries again"))
            made.take(second(1))
            if between is not None:
                file.write_bytes(between)
                if not between:
                    file.unlink()
                until(lambda: said_in(of_agent, "credentials cannot be used"))
            time.sleep(3 * RECONNECT_SECONDS)
            assert made.sent == 1
            file.write_bytes(seed(2))
            until(lambda: made.sent == 2)
            until(lambda: said_in(of_agent, "answers again"))
            made.take(second(2))
            until(lambda: made.sent == 3)
            until(lambda: any(host.calls_per_s for host in watch.view().hosts))
    assert said_in(of_agent, "is away; windows wait for it")
    # The same refusal comes with each attempt.
    for said in (of_agent, of_screen):
        refusals = [line for line in said if "tries again" in line]
        assert len(refusals) == len(set(refusals))


def test_whatever_is_wrong_with_credentials_they_are_tried_again(tmp_path: Path) -> None:
    user, creds = tmp_path / "user.nk", tmp_path / "user.creds"
    user.write_bytes(seed(1))
    said: list[str] = []
    with LocalServer(configuration=users(1)) as server:
        loop = FleetLoop("test")
        listener = ConnectionListener(refused=said.append)
        client = loop.wait(connected(ServerAccess((server.url,), nkey=user), "test", listener))
        assert isinstance(client, LastingClient)
        for content in ("", "-----BEGIN NATS USER JWT-----\n-----BEGIN USER NKEY SEED-----\nSUX\n"):
            creds.write_text(content)
            client._creds_file = creds
            server.kill()
            server.start()
            until(lambda: said_in(said, "the credentials cannot be used"))
            client._creds_file = client._user_credentials = client._user_jwt_cb = None
            until(lambda: client.is_connected)
            said.clear()
        loop.wait(close(client))
        loop.stop()


def said_in(lines: list[str], text: str) -> bool:
    return any(text in line for line in lines)


def test_certificates_are_read_again(tmp_path: Path) -> None:
    """The server gets a certificate of another authority, and the agent that authority."""
    authorities = [Authority(tmp_path / name) for name in ("first", "second")]
    of_server, ca = tmp_path / "server", tmp_path / "ca.crt"
    of_server.mkdir()

    def use(authority: Authority) -> None:
        folder = authority.sign("nats", "localhost")
        for name in ("server.crt", "server.key"):
            (of_server / name).write_bytes((folder / name).read_bytes())

    use(authorities[0])
    ca.write_bytes(authorities[0].certificate.read_bytes())
    tls = f'tls {{ cert_file: "{of_server}/server.crt", key_file: "{of_server}/server.key" }}'
    said: list[str] = []
    with LocalServer(configuration=tls, scheme="tls") as server:
        access = ServerAccess((server.url,), ca=ca)
        with agent(access, HostAddress("prod", "r1", "n1"), said) as made:
            made.take(second(0))
            until(lambda: made.sent == 1)
            use(authorities[1])
            server.kill()
            server.start()
            until(lambda: said_in(said, "certificate"))
            ca.write_bytes(authorities[1].certificate.read_bytes())
            made.take(second(1))
            until(lambda: made.sent == 2)
