"""Where a server listens: addresses and certificates in options."""

from __future__ import annotations

import argparse
import socket
import ssl
from pathlib import Path

from stalltop.model.errors import UsageError


def add_certificate_options(group: argparse._ActionsContainer) -> None:
    """Adds ``--cert`` and ``--key``."""
    group.add_argument("--cert", type=Path, metavar="FILE", help="certificate chain for TLS (PEM)")
    group.add_argument("--key", type=Path, metavar="FILE", help="private key of the certificate (PEM)")


def resolved(host: str, option: str = "--host") -> str:
    """Resolves ``host``, given with ``option``, to an IP address. Raises UsageError if that fails."""
    try:
        found = socket.getaddrinfo(host or "0.0.0.0", None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"cannot resolve {option} {host}: {getattr(error, 'strerror', None) or error}"
        ) from error
    return str(found[0][4][0])


def tls_of(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Creates the TLS context; None without a certificate. Raises UsageError if a file cannot be used."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise UsageError("--cert and --key must be given together")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # Without a password function, OpenSSL would ask for the password of an encrypted key on the terminal.
        context.load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot use --cert {certificate} with --key {key}: {error}",
            "both must be PEM files without a password",
        ) from error
    return context
