"""How chains name whom they blame."""

from __future__ import annotations

import pytest

from diagnosis.facts import Facts
from diagnosis.host.attribution import Who
from diagnosis.host.wording import named
from tests.unit.windows import window


@pytest.mark.parametrize(
    ("who", "text"),
    [
        (Who("docker:aa", 100, "python3"), "python3 (pid 100) of train"),
        (Who("", 0, "kernel"), "kernel"),
        (Who("", 0, "others"), "the rest"),
        (Who("docker:aa", 0, "others"), "the rest of train"),
        (Who("docker:aa", 7, "others"), "others (pid 7) of train"),
    ],
)
def test_culprits_read_well_as_the_subject_of_a_sentence(who: Who, text: str) -> None:
    assert named(Facts(window()), who) == text
