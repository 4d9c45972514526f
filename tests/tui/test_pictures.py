"""The pictures of the documentation can be drawn, and show what they are for."""

from __future__ import annotations

import pytest

from scripts.screenshots import PICTURES, Picture, draw

WORDS = {
    "demo": "bert-trainer",
    "operations": "cudaLaunchKernel",
    "light": "SIMULATED",
    "help": "NCCL",
    "row": "How&#160;long&#160;calls&#160;took",
    "why": "What&#160;to&#160;do",
}


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
async def test_pictures_can_be_drawn(picture: Picture) -> None:
    svg = await draw(picture)
    assert svg.startswith("<svg")
    assert "@font-face" not in svg
    assert WORDS[picture.name] in svg
