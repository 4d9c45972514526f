"""Tests access to the served page: tokens, host names, origins and addresses."""

from __future__ import annotations

import pytest

from stalltop.serving.access import Access, host_name, is_loopback, is_same_origin, known_hosts


def test_a_token_is_random_and_not_in_repr() -> None:
    one, other = Access(known_hosts(())), Access(known_hosts(()))
    secrets = {one.token, one.cookie, other.token, other.cookie}
    assert len(secrets) == 4
    assert all(len(secret) >= 43 for secret in secrets)  # 43 characters hold 256 bits
    assert not any(secret in repr(one) for secret in secrets)


@pytest.mark.parametrize("given", ["", "x", "ä", "\udcff", "\0", "x" * 10_000])
def test_any_other_token_is_refused(given: str) -> None:
    access = Access(known_hosts(()))
    assert not access.is_token(given)
    assert not access.is_cookie(given)
    assert not access.is_token(access.token[:-1])
    assert not access.is_token(access.cookie)
    assert access.is_token(access.token)
    assert access.is_cookie(access.cookie)


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost", "localhost"),
        ("LOCALHOST:80", "localhost"),
        ("gpu7.:443", "gpu7"),
        ("[::1]:8750", "::1"),
        ("[::1]", "::1"),
        ("127.0.0.1:8750", "127.0.0.1"),
        ("", ""),
    ],
)
def test_the_name_is_taken_from_a_host_header(header: str, name: str) -> None:
    assert host_name(header) == name


@pytest.mark.parametrize(
    ("header", "right"),
    [
        ("localhost:1", True),
        ("gpu7:1", True),
        ("GPU7", True),
        ("10.0.0.1:8750", True),
        ("[fe80::1]:8750", True),
        ("gpu7.evil.example", False),
        ("evil.example:8750", False),
        ("127.0.0.1.evil.example", False),
        ("gpu7@evil.example", False),
        (None, False),
        ("", False),
        (".", False),
    ],
)
def test_only_known_hosts_and_addresses_are_accepted(header: str | None, right: bool) -> None:
    assert Access(known_hosts(["GPU7", ""])).is_host(header) is right


@pytest.mark.parametrize(
    ("origin", "host", "same"),
    [
        ("http://localhost:8750", "localhost:8750", True),
        ("https://gpu7", "gpu7", True),
        ("HTTP://GPU7", "gpu7", True),
        ("http://localhost", "localhost:8750", False),
        ("http://localhost:8751", "localhost:8750", False),
        ("http://evil.example", "localhost", False),
        ("http://localhost.evil.example", "localhost", False),
        ("null", "null", False),
        ("file://", "", False),
        ("http://", "", False),
        ("", "localhost", False),
        (None, "localhost", False),
        (None, None, False),
    ],
)
def test_only_the_same_origin_is_accepted(origin: str | None, host: str | None, same: bool) -> None:
    assert is_same_origin(origin, host) is same


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("fe80::1%eth0", False),
    ],
)
def test_loopback_addresses_are_recognised(address: str, loopback: bool) -> None:
    assert is_loopback(address) is loopback
