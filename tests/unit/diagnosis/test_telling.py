"""Tests the words that describe each cause in a sentence."""

from __future__ import annotations

import string

import pytest

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.causes import CAUSES, TELLINGS
from stalltop.model.window import SPLITS

LONGEST = 60


@pytest.mark.parametrize("cause", CAUSES.values(), ids=lambda cause: cause.id)
def test_every_cause_is_told_with_and_without_a_culprit(cause: Cause) -> None:
    telling = TELLINGS[cause.id]
    for text in (telling.does, telling.without, telling.state):
        assert 0 < len(text) <= LONGEST
        assert text == text.strip()
        assert text[0].islower()
        assert text[0].isalpha()
        assert not text.endswith((".", ",", ":"))
        fields = {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
        assert fields <= {"device", "operation"}
    # Every part is a third-person predicate: "X takes ...", "X is slow".
    for text in (telling.does, telling.without, telling.state):
        verb = text.split()[0]
        assert verb.endswith("s") or verb in {"had", "may", "lost", "stopped", "no", "was", "never"}, text
    assert "{" not in telling.state
    assert set(telling.parts) <= set(SPLITS)
