"""Options that say which NATS server a command of the fleet connects to, and as whom."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stalltop.cli.tracing import number
from stalltop.model.errors import StalltopError, UsageError

if TYPE_CHECKING:
    from stalltop.fleet.connection import ServerAccess

DEFAULT: Final = "nats://127.0.0.1:4222"
VARIABLE: Final = "STALLTOP_NATS"
"""Environment variable with the default of ``--nats``. Those of files are named after it, such as
``STALLTOP_NATS_NKEY``."""
FILES: Final = ("creds", "nkey", "tls_ca", "tls_cert", "tls_key")
"""Options that name a file."""
BUFFER_MIB: Final = 16
_MOST_BYTES: Final = 4096


def add_server_options(parser: argparse.ArgumentParser, default: str = f"${VARIABLE}, or {DEFAULT}") -> None:
    """Adds ``--nats`` and the options that choose a user and certificates. ``default`` says what happens
    without ``--nats``."""
    group = parser.add_argument_group("NATS server (docs/fleet.md)")
    group.add_argument(
        "--nats", metavar="URL", help=f"server, or several separated by commas (default: {default})"
    )
    group.add_argument("--creds", type=Path, metavar="FILE", help="credentials of a user: JWT and seed")
    group.add_argument("--nkey", type=Path, metavar="FILE", help="seed of a user")
    group.add_argument("--user", default="", metavar="NAME", help="name of a user")
    group.add_argument("--password-file", type=Path, metavar="FILE", help="file with the user's password")
    group.add_argument("--tls-ca", type=Path, metavar="FILE", help="certificates of authorities (PEM)")
    group.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate of this client (PEM)")
    group.add_argument("--tls-key", type=Path, metavar="FILE", help="private key of this client (PEM)")


def add_sending_options(
    parser: argparse.ArgumentParser, default: str = f"${VARIABLE}, or {DEFAULT}"
) -> argparse._ActionsContainer:
    """Adds the options of a command that passes windows on to a fleet; returns the group of those that say
    what is sent. ``default`` is that of `add_server_options`."""
    add_server_options(parser, default)
    place = parser.add_argument_group("place of this host")
    place.add_argument("--cluster", default="default", metavar="NAME", help="cluster (default: %(default)s)")
    place.add_argument("--rack", default="default", metavar="NAME", help="rack (default: %(default)s)")
    place.add_argument("--host", metavar="NAME", help="name of this host (default: its own)")
    sent = parser.add_argument_group("what is sent")
    sent.add_argument(
        "--windows",
        choices=("always", "asked"),
        default="always",
        help="whole windows: always, so that they are kept and rolled up; or only while somebody looks at "
        "this host (default: %(default)s)",
    )
    sent.add_argument(
        "--buffer",
        type=number(int, 1, 4096),
        default=BUFFER_MIB,
        metavar="MIB",
        help="memory for windows while the server is away (default: %(default)s)",
    )
    return sent


def sending_arguments(options: argparse.Namespace) -> list[str]:
    """Returns the options of `add_sending_options` that ``options`` have and that are not the default, as
    arguments of a command line."""
    parser = argparse.ArgumentParser(add_help=False)
    add_sending_options(parser)
    default = vars(parser.parse_args([]))
    names = {action.dest: action.option_strings[0] for action in parser._actions}
    return [
        f"{name}={getattr(options, dest)}"
        for dest, name in names.items()
        if getattr(options, dest) != default[dest]
    ]


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
