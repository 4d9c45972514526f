"""Tests filters: which rows match, and which texts are no filter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalltop.model.evidence import HOST_GAP, HOST_LAYER
from stalltop.model.row_key import RowKey
from stalltop.model.rows.filter import KEYS, parse
from stalltop.model.tenant import Tenant
from tests.windows.by_hand import Calls, key, window
from tests.windows.full import full_window

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
def test_a_filter_matches_the_terms_in_it(text: str, expected: bool) -> None:
    assert parse(text).error == ""
    assert parse(text).matches(KEY, TRAIN) is expected


@pytest.mark.parametrize("text", ["between", "op:gap", '"time between calls"'])
def test_time_between_calls_is_found_by_its_name_and_by_that_in_files(text: str) -> None:
    assert parse(text).matches(KEY._replace(layer=HOST_LAYER, operation=HOST_GAP), TRAIN)


@pytest.mark.parametrize("text", ["/(/", "op:/[/", "launch /*x/", "nosuch:/x/", "/a{99999999999}/"])
def test_an_invalid_filter_says_why_and_matches_nothing(text: str) -> None:
    bad = parse(text)
    assert bad.error
    assert "\n" not in bad.error
    assert not bad.matches(KEY, TRAIN)


def test_every_key_can_be_filtered_by() -> None:
    for name, get in KEYS.items():
        value = get(KEY, TRAIN, ("0", "3"))
        assert parse(f'{name}:"{value}"').matches(KEY, TRAIN, ("0", "3")), name


@pytest.mark.parametrize(
    ("text", "on", "expected"),
    [
        ("gpu:1", ("0", "1"), True),
        ("gpu:1", ("11",), False),
        ("gpu:1", (), False),
        ("-gpu:1", (), True),
        ("gpu:0-3", ("2",), True),
        ("device:0,7", ("7",), True),
        ("gpu:/^0-/", ("0", "1"), True),
        ("gpu:/^1/", ("0", "1"), False),
        ("gpu:0", ("0:3",), True),
        ("gpu:0:3", ("0:3",), True),
        ("gpu:0:3", ("0:4", "0"), False),
    ],
)
def test_rows_match_by_the_devices_of_their_process(text: str, on: tuple[str, ...], expected: bool) -> None:
    assert parse(text).error == ""
    assert parse(text).matches(KEY, TRAIN, on) is expected


def test_a_window_knows_the_devices_of_its_processes() -> None:
    whole = full_window()
    (device,) = whole.devices.devices
    (instance, _) = device.instances

    def found(text: str) -> set[int]:
        return {row.pid for row in parse(text).apply(whole).rows.keys}

    assert found("gpu:0") == {100, 200}
    assert found("gpu:0:3") == {one.pid for one in instance.processes} == {200}
    assert found("-gpu:0:3") == {one.pid for one in device.processes} == {100}
    assert found("gpu:7") == set()


@pytest.mark.parametrize("text", ["gpu:x", "gpu:-", "device:one"])
def test_an_invalid_device_is_reported(text: str) -> None:
    assert "such as 0, 0-3 or 0:1" in parse(text).error


def test_an_unknown_key_gets_a_suggestion() -> None:
    assert "did you mean pod:" in parse("pods:llm").hint
    assert "keys: container" in parse("nosuch:x").hint
    assert parse("image:tag -xyz:1").hint.startswith("image: is not a key")
    assert not parse("op:x gpu:1 word").hint


def test_a_row_without_a_known_tenant_can_match() -> None:
    assert parse("launch").matches(KEY)
    assert parse("4f1c0a").matches(KEY)
    assert not parse("resnet").matches(KEY)


def test_a_window_is_narrowed_to_matching_rows() -> None:
    whole = full_window()
    serve = parse("container:serve").apply(whole)
    assert [row.operation for row in serve.rows.keys] == ["cudaStreamSynchronize", "ncclAllReduce"]
    assert serve.rows.calls.tolist() == [3, 2]
    assert serve.rows.bytes.tolist() == [0, 1_048_576]
    assert serve.rows.histograms.totals().tolist() == [3, 2]
    assert [call.operation for call in serve.open_calls] == ["ncclCommInitRank"]
    assert (serve.coverage, serve.loss, serve.devices) == (whole.coverage, whole.loss, whole.devices)
    assert parse("-container:serve").rows(whole).tolist() == [True, True, True, False, False]
    assert len(parse("/(/").apply(whole).rows) == 0
    assert parse("  ").apply(whole) is whole


def test_splits_are_narrowed_with_their_rows() -> None:
    calls = [Calls(key("cudaFree"), [10]), Calls(key("cudaMalloc"), [20])]
    split = parse("malloc").apply(window(calls, split=True)).rows.split_ns
    assert split is not None
    assert split[:, 0].tolist() == [20]


@given(st.text(max_size=60))
def test_arbitrary_text_raises_no_error(text: str) -> None:
    filter_ = parse(text)
    assert filter_.matches(KEY, TRAIN) in (True, False)
    assert not (filter_.error and filter_.tests)


@pytest.mark.parametrize(
    "regex",
    [
        "(a+)+$",
        "(a*)*$",
        "(a|a)*$",
        "(?:a|aa)+$",
        "(.*)*b",
        "(a?){40}" + "a" * 40,
        "a?" * 30 + "a" * 30,
        "(?=(a+)+b)a",
        "(?>(a+)+)b",
        "(a+)++b",
        ".*.*.*b",
        "((a{1,9}){1,9}){1,9}b",
        "(x)(?(1)(a+)+|b)$",
    ],
)
def test_a_regular_expression_with_exponential_time_is_refused(regex: str) -> None:
    for text in (f"/{regex}/", f"op:/{regex}/", f"-/{regex}"):
        bad = parse(text)
        assert "may take too long" in bad.error
        assert "\n" not in bad.error
        assert not bad.matches(KEY, TRAIN)


@pytest.mark.parametrize(
    "regex",
    ["^cuda.*(Sync|Async)$", "a.*b.*c", "[0-9]{1,5}-[a-z]+-.*", "(ab)+c?", "colou?r|gr[ae]y", r"(x)\1?"],
)
def test_ordinary_regular_expressions_are_accepted(regex: str) -> None:
    assert parse(f"/{regex}/").error == ""


def test_only_the_start_of_a_very_long_name_is_searched() -> None:
    long = KEY._replace(operation="a" * 10_000 + "b")
    assert parse("op:/a.*a/").matches(long)
    assert not parse("op:/a.*a.*a.*b/").matches(long._replace(operation="a" * 60 + "c" + "a" * 500 + "b"))
    assert not parse("op:/b$/").matches(long)
    assert parse("op:b").matches(long)
    assert parse("op:/a+/").spans(long.operation, "operation") == ((0, 256),)
