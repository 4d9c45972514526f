"""Tests the server for browsers, with stand-ins for the screens: access, messages, and when screens end."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import time
from pathlib import Path

import pytest

from stalltop.cli.listening import tls_of
from stalltop.model.errors import StalltopError
from stalltop.serving.server import STATIC
from tests.tui.serving.browsers import DEADLINE, served, until_gone
from tests.tui.sources import FedSource, numbered


async def test_the_token_is_exchanged_for_a_cookie_and_leaves_the_address() -> None:
    async with served() as here:
        address = f"{here.address}/?token={here.access.token}"
        async with here.client.get(address, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/")
            cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert "Secure" not in cookie  # browsers do not return a Secure cookie over plain HTTP
        assert here.access.token not in cookie
        async with here.client.get(here.address) as answer:
            assert answer.status == 200
            assert "/textual.js" in await answer.text()
        # If the browser already has the cookie, the server removes any token from the address and does not
        # check it.
        async with here.client.get(f"{here.address}/?token=x&ping=y", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/")


@pytest.mark.parametrize("path", ["/", "/?token=", "/?token=wrong", "/ws", "/download/x", "/no", *STATIC])
async def test_without_the_token_every_path_is_forbidden(path: str) -> None:
    async with served() as here:
        async with here.client.get(here.address + path, cookies={"stalltop": here.access.token}) as answer:
            text = await answer.text()
        assert answer.status == 403
        assert "address that stalltop serve printed" in text
        assert here.access.token not in text
        assert "Set-Cookie" not in answer.headers
        # The token is accepted only for the page, which removes it from the address; other addresses would
        # keep it.
        async with here.client.get(f"{here.address}/ws?token={here.access.token}") as answer:
            assert answer.status == 403


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9000", 200),
        ("[::1]:9000", 200),
        ("LocalHost:8750", 200),
        ("gpu7.example.org", 200),
        ("gpu7.example.org.:443", 200),
        ("192.0.2.7", 200),
        ("evil.example.org", 421),
        ("localhost.evil.example.org", 421),
        ("127.0.0.1.evil.example.org", 421),
        ("", 421),
    ],
)
async def test_only_requests_to_names_of_this_server_are_answered(host: str, status: int) -> None:
    async with served(hosts=["GPU7.example.org"]) as here:
        await here.enter()
        async with here.client.get(here.address, headers={"Host": host}) as answer:
            assert answer.status == status
            assert ("evil" in str(answer.headers)) is False


@pytest.mark.parametrize(
    "origin", [None, "null", "", "http://evil.example.org", "http://127.0.0.1", "ftp://HERE", "//HERE"]
)
async def test_only_the_page_itself_gets_a_screen(origin: str | None) -> None:
    async with served() as here:
        await here.enter()
        own = here.address.removeprefix("http://")
        headers = {} if origin is None else {"Origin": origin.replace("HERE", own)}
        async with here.client.get(f"{here.address}/ws", headers=headers) as answer:
            assert answer.status == 403
            assert "came from another site" in await answer.text()


async def test_every_answer_has_headers_against_foreign_content() -> None:
    async with served() as here:
        refused = await here.client.get(here.address)
        await here.enter()
        answers = [refused] + [
            await here.client.get(here.address + path) for path in ("/", "/no", "/download/x", *STATIC)
        ]
        for answer in answers:
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert f"connect-src 'self' ws://{here.address.removeprefix('http://')};" in policy
            assert answer.headers["Cache-Control"] == "no-store"
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert "Server" not in answer.headers
            answer.release()
        async with here.client.post(here.address) as answer:
            assert answer.status == 405


async def test_nothing_in_the_page_comes_from_elsewhere() -> None:
    async with served() as here:
        await here.enter()
        for path, (_, kind) in STATIC.items():
            async with here.client.get(here.address + path) as answer:
                content = await answer.read()
                assert (answer.status, answer.content_type) == (200, kind)
                assert len(content) > 500
                if path in ("/page.css", "/page.js"):
                    assert b"://" not in content.replace(b"//${window.location.host}", b"")


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is not installed, so there is no certificate")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    made = f"{program} req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    subprocess.run(
        [*made.split(), "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
        timeout=90,
    )
    return certificate, key


async def test_tls_is_required_and_recent(certificate: tuple[Path, Path]) -> None:
    async with served(tls=tls_of(*certificate)) as here:
        async with here.client.get(
            f"{here.address}/?token={here.access.token}", allow_redirects=False
        ) as answer:
            assert "Secure" in answer.headers["Set-Cookie"]
            assert "wss://127.0.0.1" in answer.headers["Content-Security-Policy"]
        async with here.browser() as browser:
            await browser.sees("pid ")
        old = ssl.create_default_context()
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        port = int(here.address.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=old)
        assert writer.get_extra_info("ssl_object").version() in ("TLSv1.2", "TLSv1.3")
        writer.close()
        # A request without TLS gets no answer.
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()


async def test_only_valid_messages_reach_the_screen() -> None:
    async with served() as here:
        await here.enter()
        async with here.browser() as browser:
            for nonsense in ("", "[", "[]", "{}", "[1]", '["stdin", 5]', '["resize", [1]]', "[" * 5000):
                await browser.line.send_str(nonsense)
            await browser.line.send_bytes(b'["stdin", "binary"]')
            await browser.say("deliver_chunk_request", {"key": "x"})
            await browser.say("quit")
            await browser.say("stdin", "ä\x1b[A")
            await browser.say("resize", {"width": 1e9, "height": -3})
            await browser.say("resize", {"width": None})
            await browser.say("blur")
            await browser.say("ping", "1" * 99)
            text = await browser.sees('"blur"')
            assert text.splitlines()[1] == (
                'D:ä\x1b[AM:{"type": "resize", "width": 500, "height": 5}'
                'M:{"type": "resize", "width": 80, "height": 24}M:{"type": "blur"}'
            )
            while not browser.texts:
                assert await browser.receive()
            assert browser.texts == [["pong", "1" * 32]]


async def test_too_large_a_message_ends_the_screen() -> None:
    async with served() as here:
        await here.enter()
        async with here.browser() as browser:
            pid = await browser.pid()
            await browser.say("stdin", "x" * (300 << 10))
            await browser.ends()
            assert browser.line.close_code == 1009
        await until_gone(pid)


async def test_windows_reach_every_screen() -> None:
    async with served("windows") as here:
        await here.enter()
        async with here.browser() as one, here.browser() as other:
            await one.sees(f"window of {numbered(0).host}")
            await other.sees(f"window of {numbered(0).host}")


async def test_the_environment_of_a_screen_has_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "x")
    async with served("environment") as here:
        await here.enter()
        async with here.browser() as browser:
            text = await browser.sees("TEXTUAL_COLOR_SYSTEM")
            assert "SECRET_KEY" not in text


async def test_the_number_of_browsers_is_limited() -> None:
    async with served(sessions=2) as here:
        await here.enter()
        async with here.browser() as one, here.browser() as other:
            first = await one.pid()
            await other.pid()
            async with here.browser() as third:
                assert "all 2 sessions are in use" in await third.ends()
            await one.line.close()
            await until_gone(first)
        # Soon after the process of a screen has ended, another browser can have a screen.
        end = time.monotonic() + DEADLINE
        there = False
        while not there:
            assert time.monotonic() < end
            async with here.browser() as again:
                await again.receive()
                there = again.text.startswith("pid ")


@pytest.mark.parametrize("kind", ["echo", "hang"])
async def test_a_screen_ends_when_its_browser_leaves(kind: str) -> None:
    async with served(kind) as here:
        await here.enter()
        async with here.browser() as browser:
            pid = await browser.pid()
        await until_gone(pid)


@pytest.mark.parametrize("kind", ["echo", "hang"])
async def test_every_screen_ends_with_the_server(kind: str) -> None:
    async with served(kind) as here:
        await here.enter()
        async with here.browser() as browser:
            pid = await browser.pid()
            await asyncio.gather(here.server.stop(), browser.ends())
            assert browser.line.close_code == 1001
            await until_gone(pid)


async def test_a_screen_that_fails_says_why() -> None:
    async with served("fail") as here:
        await here.enter()
        async with here.browser() as browser:
            text = await browser.ends()
    assert "stalltop: it broke" in text
    assert "for a reason" in text
    assert "\x1b[31m" not in text


async def test_a_file_goes_to_the_browser_once() -> None:
    async with served("file") as here:
        await here.enter()
        async with here.browser() as browser:
            while not browser.texts:
                assert await browser.receive()
            kind, key = browser.texts[0]
            assert kind == "deliver_file_start"
            async with here.client.get(f"{here.address}/download/{key}") as answer:
                assert await answer.read() == b"\0content\0"
                assert answer.headers["Content-Disposition"] == (
                    "attachment; filename*=UTF-8''na%C3%AFve%20%22name%22.txt"
                )
                assert answer.content_type == "application/octet-stream"
            async with here.client.get(f"{here.address}/download/{key}") as answer:
                assert answer.status == 404


async def test_a_failing_source_is_reported_and_closed() -> None:
    source = FedSource()
    source.put(StalltopError("the probe broke"))
    async with served(source=source) as here:
        assert await asyncio.to_thread(source.closed.wait, 60)
        assert [str(failure) for failure in here.failures] == ["the probe broke"]
