"""Sends requests to web services of others."""

from __future__ import annotations

import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from stalltop.model.errors import StalltopError
from stalltop.model.text.clean import clean

ANSWER_SECONDS: Final = 10.0
"""Longest wait for the answer to a request."""
_MOST_ANSWER: Final = 1 << 16


class DeliveryError(StalltopError):
    """A receiver did not take a message."""

    def __init__(self, reason: str, status: int | None = None, retry_after: float = 0.0) -> None:
        super().__init__(reason)
        self.status = status
        """Status of the HTTP answer; None if there was none."""
        self.retry_after = retry_after
        """Seconds after which the receiver wants to be asked again; 0 if it did not say that."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes an error of a redirect: a POST that is redirected becomes a GET, which delivers nothing."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_NoRedirects)


def post(url: str, content: bytes, kind: str, headers: Mapping[str, str] | None = None) -> bytes:
    """Posts ``content`` of the type ``kind`` and returns the beginning of the answer. Raises DeliveryError
    unless the answer is a success. Its message does not have the path and the password of the URL, which are
    often secrets."""
    place = urlsplit(url)
    account, _, host = place.netloc.rpartition("@")
    where = f"{place.scheme}://{host}"
    sent = {"Content-Type": kind, "User-Agent": "stalltop", **(headers or {})}
    if account:
        sent["Authorization"] = f"Basic {b64encode(unquote(account).encode()).decode()}"
    request = urllib.request.Request(urlunsplit(place._replace(netloc=host)), content, sent)
    try:
        with _OPENER.open(request, timeout=ANSWER_SECONDS) as answer:
            return bytes(answer.read(_MOST_ANSWER))
    except urllib.error.HTTPError as error:
        with error:
            said = clean(error.read(200))
        after = error.headers.get("Retry-After", "")
        raise DeliveryError(
            f"{where} answered {error.code}: {said or error.reason}",
            error.code,
            float(after) if after.isdecimal() else 0.0,
        ) from None
    except (OSError, ValueError, HTTPException) as error:
        raise DeliveryError(f"cannot reach {where}: {getattr(error, 'reason', '') or error}") from None
