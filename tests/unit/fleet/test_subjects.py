"""Tests the names of subjects and streams."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalltop.fleet import subjects
from stalltop.model.fleet.host_summary import HostAddress

NAMES = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=20)


@given(NAMES, NAMES, NAMES)
def test_any_name_can_be_part_of_a_subject(cluster: str, rack: str, host: str) -> None:
    address = HostAddress(cluster, rack, host)
    subject = subjects.of_host(subjects.SUMMARY, address)
    assert subject.count(".") == 4
    assert not set(subject) & set(" *>\t\r\n")
    assert subjects.address_in(subject) == address
    assert subjects.address_in(subjects.of_namespace(address, "a.b c")) == address


def test_names_with_dots_are_one_token() -> None:
    assert subjects.token("node-1.example.org") == "node-1=2Eexample=2Eorg"
    assert subjects.of_host("sum", HostAddress("a", "", "b")) == "st1.sum.a.=.b"


@pytest.mark.parametrize("subject", ["st1.sum.a.b", "st2.sum.a.b.c", "st1.sum.a.b.=FF", "st1.sum.a.b.=0A"])
def test_other_subjects_are_refused(subject: str) -> None:
    with pytest.raises(ValueError, match="subject"):
        subjects.address_in(subject)


def test_every_kind_of_message_has_a_stream_with_limits() -> None:
    for kind in (subjects.SUMMARY, subjects.NAMESPACE, subjects.WINDOW, subjects.PROBLEM):
        assert sum(one.subject == subjects.every(kind) for one in subjects.STREAMS) == 1
    assert all(one.max_bytes > 0 and one.max_age_seconds > 0 for one in subjects.STREAMS)
    assert len(subjects.BY_NAME) == len(subjects.STREAMS)
