"""Tests how counts and names of processes are written."""

from __future__ import annotations

import pytest

from stalltop.model.text.words import counted, numbered, program, program_of, with_pid


@pytest.mark.parametrize(
    ("count", "noun", "plural", "said"),
    [
        (1, "process", "processes", "1 process"),
        (2, "process", "processes", "2 processes"),
        (0, "call", "", "0 calls"),
        (1, "call", "", "1 call"),
        (1_200, "call", "", "1,200 calls"),
    ],
)
def test_a_count_has_the_number_of_its_noun(count: int, noun: str, plural: str, said: str) -> None:
    assert numbered(count, noun, plural) == said


@pytest.mark.parametrize(
    ("count", "plural", "said"),
    [
        (1, "calls not counted", "1 call not counted"),
        (3, "calls not counted", "3 calls not counted"),
        (1, "launches", "1 launch"),
    ],
)
def test_a_count_of_one_makes_a_plural_singular(count: int, plural: str, said: str) -> None:
    assert counted(count, plural) == said


@pytest.mark.parametrize(
    ("process", "pid", "beside", "in_parentheses"),
    [
        ("train", 412, "train 412", "train (pid 412)"),
        ("pid 13133", 13133, "pid 13133", "pid 13133"),
        ("pid 7", 13133, "pid 7 13133", "pid 7 (pid 13133)"),
        ("", 412, "pid 412", "pid 412"),
        ("train", 0, "train", "train"),
    ],
)
def test_a_pid_is_written_once(process: str, pid: int, beside: str, in_parentheses: str) -> None:
    assert with_pid(process, pid) == beside
    assert program(process, pid) == in_parentheses


@pytest.mark.parametrize(
    ("process", "pid", "tenant", "said"),
    [
        ("train", 412, "pod-a", "train (pid 412) of pod-a"),
        ("train", 412, "", "train (pid 412)"),
        ("python", 412, "python", "python (pid 412)"),
        ("python (serve.py)", 412, "python", "python (serve.py) (pid 412)"),
        ("cc1 (8 processes)", 0, "cc1", "cc1 (8 processes)"),
        ("pid 412", 412, "pod-a", "pid 412 of pod-a"),
    ],
)
def test_a_tenant_that_has_the_name_of_its_program_is_left_out(
    process: str, pid: int, tenant: str, said: str
) -> None:
    assert program_of(process, pid, tenant) == said
