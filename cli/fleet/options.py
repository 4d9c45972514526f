"""Options that say which NATS server a command of the fleet connects to, and as whom."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stalltop.model.errors import StalltopError, UsageError

if TYPE_CHECKING:
    from stalltop.fleet.connection import ServerAccess

DEFAULT: Final = "nats://127.0.0.1:4222"
VARIABLE: Final = "STALLTOP_NATS"
"""Environment variable with the default of ``--nats``. Those of files are named after it, such as
``STALLTOP_NATS_NKEY``."""
FILES: Final = ("creds", "nkey", "tls_ca", "tls_cert", "tls_key")
"""Options that name a file."""
_MOST_BYTES: Final = 4096


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """Adds ``--nats`` and the options that choose a user and certificates."""
    group = parser.add_argument_group("NATS server (docs/fleet.md)")
    group.add_argument(
        "--nats",
        metavar="URL",
        help=f"server, or several separated by commas (default: ${VARIABLE}, or {DEFAULT})",
    )
    group.add_argument("--creds", type=Path, metavar="FILE", help="credentials of a user: JWT and seed")
    group.add_argument("--nkey", type=Path, metavar="FILE", help="seed of a user")
    group.add_argument("--user", default="", metavar="NAME", help="name of a user")
    group.add_argument("--password-file", type=Path, metavar="FILE", help="file with the user's password")
    group.add_argument("--tls-ca", type=Path, metavar="FILE", help="certificates of authorities (PEM)")
    group.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate of this client (PEM)")
    group.add_argument("--tls-key", type=Path, metavar="FILE", help="private key of this client (PEM)")


def server_access(options: argparse.Namespace) -> ServerAccess:
    """Returns where the server is and who connects. Raises UsageError, and StalltopError if the client
    library is missing."""
    try:
        import nats  # noqa: F401
    except ImportError:
        raise StalltopError(
            "the fleet needs the Python package nats-py, which is not installed",
            "pipx inject stalltop 'nats-py[nkeys]'",
        ) from None
    from stalltop.fleet.connection import ServerAccess

    given = options.nats or os.environ.get(VARIABLE, "") or DEFAULT
    files = {name: getattr(options, name) or _file_of(name) for name in FILES}
    urls = tuple(one.strip() for one in given.split(",") if one.strip())
    for url in urls:
        if "://" in url and url.partition("://")[0] not in ("nats", "tls", "ws", "wss"):
            raise UsageError(f"--nats: {url!r} is no address of a NATS server", f"example: {DEFAULT}")
    urls = tuple(url if "://" in url else f"nats://{url}" for url in urls)
    return ServerAccess(
        urls,
        files["creds"],
        files["nkey"],
        options.user,
        _password(options.password_file),
        files["tls_ca"],
        files["tls_cert"],
        files["tls_key"],
    )


def _file_of(name: str) -> Path | None:
    found = os.environ.get(f"{VARIABLE}_{name.upper()}", "")
    return Path(found) if found else None


def _password(path: Path | None) -> str:
    from stalltop.files.private_file import UnsuitableFileError, read_regular

    if path is None:
        return ""
    try:
        content = read_regular(path, _MOST_BYTES, follow=True)
    except (OSError, UnsuitableFileError) as error:
        raise UsageError(
            f"--password-file: cannot read {path}: {getattr(error, 'strerror', None) or error}"
        ) from None
    if content is None:
        raise UsageError(f"--password-file: {path} is missing")
    return content.decode("utf-8", "replace").strip()
