"""Tests groups of rows by any dimensions: their sums and percentiles."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from stalltop.model.evidence import HOST_GAP, HOST_LAYER, shown_operation
from stalltop.model.histograms.hdr import HIGHEST_NS, index_of
from stalltop.model.rows import pivot as pivot_module
from stalltop.model.rows.dimensions import DIMENSIONS, Dimension
from stalltop.model.rows.pivot import RowNaming, pivot
from stalltop.model.window import Window
from tests.windows.by_hand import Calls, key, window
from tests.windows.drawn import FEW, windows
from tests.windows.full import full_window

BY = st.lists(st.sampled_from(DIMENSIONS), unique=True, max_size=4)


def by_hand() -> Window:
    """Returns calls of two containers. In the first one, two driver launches are nested in runtime launches,
    and one driver launch is outermost."""
    return window(
        [
            Calls(key("cudaLaunchKernel"), [100, 200], 1, 10),
            Calls(key("cuLaunchKernel", layer="driver", nested=True), [60, 150], 1, 10),
            Calls(key("cuLaunchKernel", layer="driver"), [700], 0, 5),
            Calls(key("cudaFree", tenant="cri:bb", pid=200, process="serve"), [1000]),
        ],
        seconds=2.0,
    )


def test_containers_count_outermost_calls_only() -> None:
    groups = pivot(by_hand(), ["container"])
    assert groups.labels == (("serve",), ("train",))
    assert groups.keys == (("cri:bb",), ("docker:aa",))
    assert groups.calls.tolist() == [1, 3]
    assert groups.calls_per_s.tolist() == [0.5, 1.5]
    assert groups.errors.tolist() == [0, 1]
    assert groups.bytes.tolist() == [0, 15]
    assert groups.total_ns.tolist() == [1000, 1000]
    assert groups.max_ns.tolist() == [1000, 700]
    assert groups.share.tolist() == [0.5, 0.5]
    assert groups.rows.tolist() == [1, 2]
    assert groups.group_of_row.tolist() == [1, -1, 1, 0]
    assert groups.rows_of(1).tolist() == [0, 2]
    assert groups.nested.tolist() == [False, False]
    assert groups.p50_ns.tolist() == [1000, 200]


def test_operations_count_nested_calls_too() -> None:
    groups = pivot(by_hand(), ["operation"])
    assert groups.labels == (("cuLaunchKernel",), ("cudaFree",), ("cudaLaunchKernel",))
    assert groups.calls.tolist() == [3, 1, 2]
    assert groups.total_ns.tolist() == [910, 1000, 300]
    assert groups.share.tolist() == [0.455, 0.5, 0.15]
    assert groups.nested.tolist() == [False, False, False]


def test_layers_separate_equal_operations() -> None:
    groups = pivot(by_hand(), ["layer", "container"])
    assert groups.labels == (("driver", "train"), ("runtime", "serve"), ("runtime", "train"))
    assert groups.total_ns.tolist() == [910, 1000, 300]


def test_a_group_of_only_nested_calls_is_marked() -> None:
    only = window([Calls(key(), [100]), Calls(key("cuLaunchKernel", layer="driver", nested=True), [60])])
    groups = pivot(only, ["operation"])
    assert groups.nested.tolist() == groups.repeated.tolist() == [True, False]
    assert groups.share.tolist() == [0.6, 1.0]


def with_gap() -> Window:
    """Returns calls of the trainer of ``by_hand``, and its host gaps."""
    gap = key(HOST_GAP, layer=HOST_LAYER)
    return window(
        [
            Calls(key("cudaLaunchKernel"), [100, 200], 1, 10),
            Calls(gap, [5_000, 6_000]),
            Calls(gap._replace(tenant="cri:bb", pid=200), [7_000]),
        ]
    )


@pytest.mark.parametrize("by", [[], ["container"], ["process", "host"], ["pod"]])
def test_host_gaps_are_in_no_total(by: list[Dimension]) -> None:
    groups = pivot(with_gap(), by)
    assert groups.calls.tolist() == [2]
    assert groups.share.tolist() == [1.0]
    assert groups.between.tolist() == [False]


def test_host_gaps_are_an_operation_without_a_share() -> None:
    groups = pivot(with_gap(), ["operation"])
    assert groups.labels == (("cudaLaunchKernel",), (shown_operation(HOST_GAP),))
    assert groups.total_ns.tolist() == [300, 18_000]
    assert groups.between.tolist() == [False, True]
    assert groups.nested.tolist() == [False, False]
    assert groups.share[0] == 1.0
    assert np.isnan(groups.share[1])


def test_all_rows_count_in_any_grouping_on_request() -> None:
    groups = pivot(with_gap(), ["container"], all_rows=True)
    assert groups.labels == (("serve",), ("train",))
    assert groups.total_ns.tolist() == [7_000, 11_300]
    assert groups.between.tolist() == [True, False]


def test_no_dimension_gives_one_total() -> None:
    groups = pivot(by_hand(), [])
    assert (len(groups), groups.labels) == (1, ((),))
    assert groups.calls.tolist() == [4]
    assert groups.share.tolist() == [1.0]


@pytest.mark.parametrize("by", [[], ["container"], ["operation", "host"]])
def test_an_empty_window_gives_empty_groups(by: list[Dimension]) -> None:
    groups = pivot(window(), by)
    assert groups.calls.tolist() == [0] * (not by)
    assert groups.percentiles_ns.shape == (int(not by), 3)
    assert not groups.share.any()


def test_labels_name_what_is_known() -> None:
    one = window([Calls(key(tenant="cri:bb"), [1]), Calls(key(tenant="cgroup:9", pid=7), [1])])
    labels = {dimension: [label for (label,) in pivot(one, [dimension]).labels] for dimension in DIMENSIONS}
    assert labels == {
        "container": ["cgroup:9", "serve"],
        "namespace": ["no namespace", "prod"],
        "pod": ["llm-0", "no pod"],
        "process": ["python3 100", "python3 7"],
        "operation": ["cudaLaunchKernel"],
        "layer": ["runtime"],
        "device": ["GPU not known"],
        "host": ["gpu7"],
    }


def test_the_group_of_a_single_row_can_be_found() -> None:
    one = full_window()
    for dimension in DIMENSIONS:
        groups = pivot(one, [dimension, "layer"])
        for row, group in zip(one.rows.keys, groups.group_of_row, strict=True):
            part = RowNaming(one).part(dimension, row)
            assert part == (groups.keys[group][0], groups.labels[group][0])


def test_percentile_columns_have_names() -> None:
    groups = pivot(window([Calls(key(), list(range(1, 101)))]), ["host"])
    assert (groups.p50_ns[0], groups.p95_ns[0], groups.p99_ns[0]) == (50, 95, 99)


def test_an_unknown_dimension_is_refused() -> None:
    with pytest.raises(ValueError, match="colour"):
        pivot(window(), ["colour"])  # type: ignore[list-item]


def test_a_percentile_never_exceeds_the_longest_call() -> None:
    groups = pivot(window([Calls(key(), [1_000_001])]), ["operation"])
    assert groups.percentiles_ns.tolist() == [[1_000_001] * 3]
    assert index_of(1_000_001) == index_of(int(groups.histograms.percentiles([50.0])[0, 0]))


def test_splits_add_up_where_they_were_measured() -> None:
    calls = [Calls(key(pid=1), [10]), Calls(key(pid=2), [20])]
    measured = pivot(window(calls, split=True), ["container"]).split_ns
    assert measured is not None
    assert measured[:, 0].tolist() == [30]
    assert pivot(window(calls), ["container"]).split_ns is None


@FEW
@given(windows(), BY)
def test_groups_equal_sums_over_single_rows(one: Window, by: list[Dimension]) -> None:
    groups = pivot(one, by)
    nested_too = "operation" in by or "layer" in by
    calls: Counter[tuple[str, ...]] = Counter()
    histograms: dict[tuple[str, ...], HdrHistogram] = defaultdict(lambda: HdrHistogram(1, HIGHEST_NS, 2))
    for number, row in enumerate(one.rows.keys):
        group = int(groups.group_of_row[number])
        if not row.outermost and not nested_too:
            assert group == -1
            continue
        calls[groups.keys[group]] += int(one.rows.calls[number])
        for index, count in enumerate(one.rows.histograms.dense()[number]):
            if count:
                histogram = histograms[groups.keys[group]]
                histogram.record_value(histogram.get_value_from_index(index), int(count))
    assert len(set(groups.keys)) == len(groups)
    for number, name in enumerate(groups.keys):
        assert groups.calls[number] == calls[name]
        if calls[name]:
            for column, percent in enumerate((50.0, 95.0, 99.0)):
                expected = histograms[name].get_value_at_percentile(percent)
                longest = int(groups.max_ns[number])
                same = index_of(expected) == index_of(longest)
                assert groups.percentiles_ns[number, column] == (min(expected, longest) if same else expected)
    if not nested_too:
        outer = sum(int(t) for t, row in zip(one.rows.total_ns, one.rows.keys, strict=True) if row.outermost)
        assert int(groups.total_ns.sum()) == outer
        assert np.isclose(groups.share.sum(), 1.0 if outer else 0.0)


@given(st.permutations(["container", "process", "operation", "layer"]))
def test_the_order_of_dimensions_does_not_change_the_groups(by: list[Dimension]) -> None:
    one = full_window()
    found = pivot(one, by)
    place = [by.index(dimension) for dimension in ("container", "process", "operation", "layer")]
    calls = {tuple(name[i] for i in place): int(c) for name, c in zip(found.keys, found.calls, strict=True)}
    expected = pivot(one, ["container", "process", "operation", "layer"])
    assert calls == dict(zip(expected.keys, expected.calls.tolist(), strict=True))


@FEW
@given(st.lists(windows(), min_size=2, max_size=5), BY)
def test_names_that_are_remembered_are_those_of_the_window(parts: list[Window], by: list[Dimension]) -> None:
    remembered = [pivot(part, by) for part in parts]
    for part, found in zip(parts, remembered, strict=True):
        pivot_module._GROUPINGS.clear()
        pivot_module._NAMED_ROWS.clear()
        alone = pivot(part, by)
        assert (alone.keys, alone.labels) == (found.keys, found.labels)
        assert np.array_equal(alone.group_of_row, found.group_of_row)
        assert np.array_equal(alone.nested, found.nested)
        assert np.array_equal(alone.repeated, found.repeated)


def test_a_tenant_that_gets_a_name_is_named_anew() -> None:
    before = by_hand()
    tenant = before.rows.keys[0].tenant
    after = replace(
        before, tenants={**before.tenants, tenant: replace(before.tenants[tenant], name="renamed")}
    )
    # Another row, so that the grouping as a whole is not the known one.
    after = replace(after, rows=after.rows.take(np.arange(3)))
    assert pivot(before, ["container"]).labels == (("serve",), ("train",))
    assert pivot(after, ["container"]).labels == (("renamed",),)
