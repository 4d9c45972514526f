"""Tests the driver that draws for a browser: it notices if much output is unread, and sends files."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path

import pytest

from stalltop.cli.browser.driver import BEHIND_BYTES, BrowserDriver
from stalltop.serving.packets import FilePacket, file_in


@pytest.fixture
def driver() -> BrowserDriver:
    """Returns a driver that was not initialized, because that would need an app. Tests set the attributes
    that they use."""
    return BrowserDriver.__new__(BrowserDriver)


def test_unread_output_is_noticed(driver: BrowserDriver) -> None:
    end, driver.fileno = os.pipe()
    try:
        assert not driver.is_behind
        os.write(driver.fileno, b"x" * BEHIND_BYTES)
        assert not driver.is_behind
        os.write(driver.fileno, b"x")
        assert driver.is_behind
        os.read(end, 2)
        assert not driver.is_behind
    finally:
        os.close(end)
        os.close(driver.fileno)


@pytest.mark.parametrize("content", [b"", b"\0\xff" * 200_000, "ä"])
def test_a_file_is_sent_whole(driver: BrowserDriver, content: bytes | str) -> None:
    end, driver.fileno = os.pipe()
    read: list[bytes] = []

    def drain() -> None:
        with open(end, "rb") as file:
            read.append(file.read())

    reader = threading.Thread(target=drain)
    reader.start()
    file = io.BytesIO(content) if isinstance(content, bytes) else io.StringIO(content)
    driver.deliver_binary(file, delivery_key="x", save_path=Path("/no/such/näme.txt"))
    os.close(driver.fileno)
    reader.join(60)
    packet = read[0]
    assert (packet[:1], int.from_bytes(packet[1:5], "big")) == (b"F", len(packet) - 5)
    wanted = content if isinstance(content, bytes) else content.encode()
    assert file_in(packet[5:]) == FilePacket("näme.txt", wanted)
    assert file.closed
