"""Tests the exported report in headless Chromium: it shows everything, requests nothing and logs no error."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from stalltop.formats.html import report
from tests.browser.chromium import PROGRAM, BrowserPage, browsing
from tests.windows.exported import hostile, several

pytestmark = [
    pytest.mark.skipif(
        PROGRAM is None, reason="Chromium is not installed: ./run-tests browser installs it as root"
    ),
    pytest.mark.timeout(900),
]
PICTURES = os.environ.get("STALLTOP_PICTURES", "")
"""A folder for screenshots of the page, for manual review; '' makes none."""
SCHEMES = ("light", "dark")


async def opened(page: BrowserPage, path: Path) -> None:
    await page.go(path.as_uri())
    await page.until("document.readyState === 'complete' && document.querySelector('footer') !== null")


async def test_the_report_shows_all_sections_and_requests_nothing(tmp_path: Path) -> None:
    found = several(5)
    path = tmp_path / "report.html"
    path.write_text(report.page(found, found[0].start, found[-1].end), encoding="utf-8")
    async with browsing(tmp_path, 1280, 1000) as page:
        await opened(page, path)
        assert page.requests == [path.as_uri()]
        assert page.complaints == []
        text = await page.ask("document.body.innerText")
        for shown in ("stalltop gpu7", "serve loses time between its calls to train", "Calls over time"):
            assert shown in text
        # Charts have a size and lines; nothing is wider than the page.
        drawn = "[...document.querySelectorAll('svg')].map(one => one.getBoundingClientRect())"
        assert await page.ask(f"{drawn}.every(one => one.width > 200 && one.height > 50)")
        assert await page.ask(
            "[...document.querySelectorAll('path.p99')].every(one => one.getTotalLength() > 0)"
        )
        assert await page.ask("document.documentElement.scrollWidth <= window.innerWidth")
        grounds = set()
        for scheme in SCHEMES:
            feature = {"name": "prefers-color-scheme", "value": scheme}
            await page.call("Emulation.setEmulatedMedia", features=[feature])
            grounds.add(await page.ask("getComputedStyle(document.body).backgroundColor"))
            if PICTURES:
                await page.picture(Path(PICTURES) / f"report-{scheme}.png")
        assert len(grounds) == 2


async def test_a_link_to_a_chain_opens_its_details(tmp_path: Path) -> None:
    found = several(5)
    chains = tuple(
        replace(found[0].chains[0], id=f"{number}", summary=f"loss {number}", lost_ms_per_s=100.0 - number)
        for number in range(8)
    )
    found = [replace(one, chains=chains) for one in found]
    path = tmp_path / "report.html"
    path.write_text(report.page(found, found[0].start, found[-1].end), encoding="utf-8")
    async with browsing(tmp_path) as page:
        await opened(page, path)
        last = "document.querySelector('#chain-7').closest('details')"
        assert await page.ask(f"{last}.open") is False
        await page.ask("document.querySelector('a[href=\"#chain-7\"]').click()")
        await page.until(f"{last}.open")


async def test_hostile_names_run_no_script(tmp_path: Path) -> None:
    one = hostile()
    path = tmp_path / "report.html"
    path.write_text(report.page([one], one.start, one.end), encoding="utf-8")
    async with browsing(tmp_path) as page:
        await opened(page, path)
        assert page.requests == [path.as_uri()]
        assert page.complaints == []
        assert await page.ask("document.scripts.length + document.images.length") == 0
        assert "<script>alert(1)</script>" in await page.ask("document.body.innerText")
