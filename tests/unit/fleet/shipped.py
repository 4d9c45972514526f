"""Starts servers from the configuration files in deploy/nats, with paths, ports, names of hosts and keys of
the test."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import subprocess
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import nkeys

from stalltop.fleet.connection import ServerAccess
from stalltop.fleet.local_server import LocalServer

CONFIGURATIONS: Final = Path(__file__).resolve().parents[3] / "deploy/nats"
USERS: Final = ("ADMIN", "AGENT", "TEAM", "VIEWER", "ROLLUP")


def seed_of(user: str) -> bytes:
    """Returns the secret nkey of a user."""
    return bytes(nkeys.encode_seed(bytes.fromhex(user.encode().hex().ljust(64, "5")), nkeys.PREFIX_BYTE_USER))


def permissions() -> str:
    """Returns the users with the keys of the test."""
    text = (CONFIGURATIONS / "permissions.conf").read_text()
    for user in USERS:
        text = text.replace(f"${user}", nkeys.from_seed(bytearray(seed_of(user))).public_key.decode())
    return text


def free_port() -> int:
    """Returns a port that nobody uses. The Linux kernel gives ports from 32,768 on to connections, which
    could take one before the server that is to have it starts."""
    while True:
        port = random.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@dataclass
class Authority:
    """Signs certificates of servers on this host."""

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        _openssl("req", "-x509", *_KEY, "-subj", f"/CN={self.folder.name}", *self._pair("ca"), "-days", "2")

    @property
    def certificate(self) -> Path:
        """Certificate of the authority."""
        return self.folder / "ca.crt"

    def sign(self, server: str, *names: str) -> Path:
        """Makes a certificate with ``names``, and returns a folder that a server has as ``/etc/nats``."""
        folder = self.folder / server
        folder.mkdir()
        (folder / "ca.crt").write_bytes(self.certificate.read_bytes())
        more = folder / "names"
        alternatives = ",".join((*(f"DNS:{name}" for name in names), "IP:127.0.0.1"))
        more.write_text(f"subjectAltName={alternatives}\nextendedKeyUsage=serverAuth,clientAuth\n")
        request = folder / "request"
        key = folder / "server.key"
        _openssl("req", *_KEY, "-subj", f"/CN={server}", "-keyout", str(key), "-out", str(request))
        signer = ("-CA", str(self.certificate), "-CAkey", str(self.folder / "ca.key"), "-CAcreateserial")
        out = ("-extfile", str(more), "-days", "2", "-out", str(folder / "server.crt"))
        _openssl("x509", "-req", "-in", str(request), *signer, *out)
        return folder

    def _pair(self, name: str) -> tuple[str, ...]:
        return "-keyout", str(self.folder / f"{name}.key"), "-out", str(self.folder / f"{name}.crt")


_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@dataclass
class ShippedServer:
    """A server that runs with one of the files."""

    name: str
    authority: Authority
    certificates: Path
    """What it has as ``/etc/nats``."""
    changes: dict[str, str] = field(default_factory=dict)
    """What is written in place of what in the file, and in those that it includes."""
    alone: bool = True
    """Whether the line with the cluster is left out."""

    def __post_init__(self) -> None:
        self.port, self._watched = free_port(), free_port()
        users = self.certificates / "keys"
        users.mkdir(exist_ok=True)
        for user in USERS:
            (users / user).write_bytes(seed_of(user))
        self.server = LocalServer(
            port=self.port,
            configuration=f'{self.text()}\nhttp: "127.0.0.1:{self._watched}"',
            scheme="tls",
            jetstream=False,
        )

    def text(self) -> str:
        """Returns the configuration of this server."""
        text = (CONFIGURATIONS / self.name).read_text()
        if self.alone:
            text = text.replace('include "cluster.conf"', "")
        for name in ("cluster.conf", "permissions.conf"):
            if f'include "{name}"' in text:
                part = permissions() if name == "permissions.conf" else (CONFIGURATIONS / name).read_text()
                text = text.replace(f'include "{name}"', part)
        changes = {
            **self.changes,
            "0.0.0.0:4222": f"127.0.0.1:{self.port}",
            "/etc/nats": str(self.certificates),
            "/var/lib/nats": str(self.certificates / "store"),
        }
        for one, other in changes.items():
            assert one in text, (self.name, one)
            text = text.replace(one, other)
        return text

    def access(self, user: str) -> ServerAccess:
        """Returns access as a user."""
        return ServerAccess(
            (self.server.url,), nkey=self.certificates / "keys" / user, ca=self.authority.certificate
        )

    def options(self, user: str) -> tuple[str, ...]:
        """Returns the options of a command that connects as a user."""
        access = self.access(user)
        return "--nats", access.urls[0], "--nkey", str(access.nkey), "--tls-ca", str(access.ca)

    def leaves(self) -> list[dict[str, Any]]:
        """Returns what the server says about its leaf node connections."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._watched}/leafz?subs=1", timeout=10) as answer:
            found: list[dict[str, Any]] = json.load(answer).get("leafs") or []
        return found
