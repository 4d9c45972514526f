"""Provides the texts of the diagnosis for each cause to screens and reports, which do not import the
diagnosis."""

from __future__ import annotations

from stalltop.model.telling import Tellings


def tellings() -> Tellings:
    """Returns the words for each cause by its id. The first call imports all rules of the diagnosis."""
    from stalltop.diagnosis.causes import TELLINGS

    return TELLINGS
