from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.filter import KEYS, parse
from model.tenant import Tenant
from model.window import RowKey

TRAIN = Tenant(
    id="docker:4f1c0a",
    name="train resnet",
    runtime="docker",
    container_id="4f1c0a",
    pod="resnet-0",
    namespace="research",
    cgroup_path="/docker/4f1c0a",
)
KEY = RowKey("gpu7", TRAIN.id, 4711, "python3", "runtime", "cudaLaunchKernel")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("   ", True),
        ("launch", True),
        ("LAUNCH", True),
        ("sync", False),
        ("launch train", True),
        ("launch sync", False),
        ("4711", True),
        ("471", False),
        ('"train resnet"', True),
        ('"train res', True),
        ('"resnet train"', False),
        ("research", True),
        ("/launch.*kernel/", True),
        ("/^cuda/", True),
        ("/^cuda", True),
        ("/train res/", True),
        ("/train res/ 4711", True),
        ("/^launch/", False),
        ("/docker/4f", True),
        ("op:launch", True),
        ("operation:python", False),
        ("op:/kernel$/", True),
        ("op:/^Kernel/", False),
        ('container:"train resnet"', True),
        ("container:4f1c", True),
        ("c:train", True),
        ("pid:4711", True),
        ("pid:471", False),
        ("pid:/^47/", True),
        ("layer:driver", False),
        ("layer:runtime", True),
        ("host:gpu7 ns:research pod:resnet runtime:docker kind:container proc:python", True),
        ("op:", True),
        ("-sync", True),
        ("-launch", False),
        ("-layer:driver", True),
        ("-/kernel/", False),
        ("-", True),
        ("docker:4f1c0a", True),
        ("docker:ffff", False),
    ],
)
def test_a_filter_finds_what_it_names(text: str, expected: bool) -> None:
    assert parse(text).error == ""
    assert parse(text).matches(KEY, TRAIN) is expected


@pytest.mark.parametrize("text", ["/(/", "op:/[/", "launch /*x/", "nosuch:/x/", "/a{99999999999}/"])
def test_a_bad_filter_says_why_and_matches_nothing(text: str) -> None:
    bad = parse(text)
    assert bad.error
    assert "\n" not in bad.error
    assert not bad.matches(KEY, TRAIN)


def test_every_key_can_be_asked_for() -> None:
    for name, get in KEYS.items():
        value = get(KEY, TRAIN)
        assert parse(f'{name}:"{value}"').matches(KEY, TRAIN), name


def test_a_row_without_a_known_tenant_is_searched_too() -> None:
    assert parse("launch").matches(KEY)
    assert parse("4f1c0a").matches(KEY)
    assert not parse("resnet").matches(KEY)


@given(st.text(max_size=60))
def test_no_text_raises(text: str) -> None:
    filter_ = parse(text)
    assert filter_.matches(KEY, TRAIN) in (True, False)
    assert not (filter_.error and filter_.tests)
