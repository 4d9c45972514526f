"""Tests the exposition of a host's totals with the strict parsers of prometheus_client."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from stalltop.formats.metrics import catalogue
from stalltop.formats.metrics.catalogue import FIGURES, METRICS
from stalltop.formats.metrics.exposition import Exposition
from stalltop.formats.metrics.points import pass_on
from stalltop.formats.metrics.totals import HostTotals
from stalltop.model.histograms.hdr import HIGHEST_NS
from stalltop.model.tenant import Tenant
from stalltop.model.window import LOSSES, Window
from tests.windows.by_hand import Calls, key, window
from tests.windows.full import full_window
from tests.windows.hostile import hostile_window

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def exposed(*windows: Window, openmetrics: bool = True) -> bytes:
    totals, made = HostTotals(100), Exposition(openmetrics=openmetrics)
    for one in windows:
        totals.add(one)
    pass_on(totals, "1.2.3", made)
    return made.text().encode()


def parsed(text: bytes) -> Series:
    """Returns the value of each series of an exposition, which must be valid."""
    found: Series = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            series = sample.name, tuple(sorted(sample.labels.items()))
            assert series not in found
            found[series] = sample.value
    return found


def values(found: Series, name: str) -> dict[str, float]:
    """Returns the values of one metric by its labels, as text."""
    return {
        ",".join(f"{label}={value}" for label, value in labels): number
        for (series, labels), number in found.items()
        if series == name
    }


WINDOWS = {"full": full_window, "hostile": hostile_window, "empty": window}


@pytest.mark.parametrize("name", WINDOWS)
def test_the_exposition_is_valid_and_as_the_catalogue_says(name: str) -> None:
    found = parsed(exposed(WINDOWS[name]()))
    known = {one.series: one for one in METRICS}
    for series, labels in found:
        name = re.sub(r"_(bucket|count|sum|created)$", "", series)
        metric = known.get(series) or known.get(name) or known[f"{name}_total"]
        assert {label for label, _ in labels} <= {*metric.labels, "le"}, series
        assert all(value for _, value in labels)


def test_a_full_window_has_every_metric() -> None:
    one = full_window()
    (device,) = one.devices.devices
    figures: dict[str, Any] = {each.figure.name: 1 for each in FIGURES}
    devices = replace(one.devices, devices=(replace(device, **figures),))
    job = Tenant("slurm:job_42/step_0", "job 42.0", "job", "slurm")
    tenants = {**one.tenants, job.id: job}
    found = {series for series, _ in parsed(exposed(replace(one, devices=devices, tenants=tenants)))}
    missing = {one.series if one.kind != "histogram" else f"{one.name}_bucket" for one in METRICS} - found
    assert missing == set()


def test_no_series_has_a_pid_or_the_name_of_a_cuda_kernel() -> None:
    one = full_window()
    text = exposed(one).decode()
    labels = {label for _, found in parsed(text.encode()) for label, _ in found}
    assert not labels & {"pid", "tid", "process", "kernel"}
    kernels = {count.kernel for count in one.kernels} - {""}
    assert kernels
    assert not any(kernel in text for kernel in kernels)
    assert not re.search(r'"[^"]*\bpid \d+', text)


def test_calls_have_the_exact_counts_in_every_bucket() -> None:
    durations = [1, 1_023, 1_024, 5_000, 1_000_000, HIGHEST_NS]
    found = parsed(exposed(window([Calls(key(), durations, errors=2, bytes=64)], start=1_000.0)))
    labels = "container=train,operation=cudaLaunchKernel,tenant=train"
    assert values(found, "stalltop_calls_total") == {labels: 6}
    assert values(found, "stalltop_errors_total") == {labels: 2}
    assert values(found, "stalltop_call_bytes_total") == {labels: 64}
    assert values(found, "stalltop_call_duration_seconds_count") == {labels: 6}
    assert values(found, "stalltop_call_duration_seconds_sum") == {labels: sum(durations) / 1e9}
    assert values(found, "stalltop_call_duration_seconds_created") == {labels: 1_000.0}
    assert values(found, "stalltop_calls_created") == {labels: 1_000.0}
    buckets = {
        float(dict(series)["le"]): value
        for (name, series), value in found.items()
        if name == "stalltop_call_duration_seconds_bucket"
    }
    assert len(buckets) == 28
    for edge, count in buckets.items():
        assert count == sum(duration / 1e9 <= edge for duration in durations)


def test_losses_are_exposed_from_zero_on() -> None:
    found = values(parsed(exposed(window(loss={"no_slot": 3}))), "stalltop_missed_total")
    assert found == {f"reason={name}": 3 if name == "no_slot" else 0 for name in LOSSES}


def test_a_problem_has_its_loss_and_its_beginning() -> None:
    whole = full_window()
    opened = [chain for chain in whole.chains if chain.open]
    assert opened
    found = parsed(exposed(whole))
    lost = values(found, "stalltop_problem")
    assert sum(lost.values()) == pytest.approx(sum(chain.lost_ms_per_s for chain in opened) / 1e3)
    labels = [dict(labels) for name, labels in found if name == "stalltop_problem"]
    assert {(one["cause"], one["severity"]) for one in labels} == {
        (chain.cause, chain.severity) for chain in opened
    }
    assert set(values(found, "stalltop_problem_start_time_seconds").values()) == {
        chain.since for chain in opened
    }


def test_before_the_first_window_there_is_only_the_version() -> None:
    assert parsed(exposed()) == {("stalltop_build_info", (("version", "1.2.3"),)): 1.0}


def test_the_text_format_has_the_same_values_and_no_times_of_creation() -> None:
    plain = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_families(exposed(full_window(), openmetrics=False).decode())
        for sample in family.samples
    }
    assert plain == {
        series: value
        for series, value in parsed(exposed(full_window())).items()
        if not series[0].endswith("_created")
    }


def test_both_formats_tell_the_types_of_the_catalogue() -> None:
    known = {one.name: one for one in METRICS}
    for family in text_string_to_metric_families(exposed(full_window()).decode()):
        assert (family.type, family.unit) == (known[family.name].kind, known[family.name].unit)
        assert family.documentation == f"{known[family.name].about}."
    for family in text_families(exposed(full_window(), openmetrics=False).decode()):
        kind = known[family.name.removesuffix("_info")].kind
        assert family.type == ("gauge" if kind == "info" else kind)


def test_labels_are_escaped() -> None:
    name = 'a"b\\c\nd'
    made = Exposition(openmetrics=True)
    made.add(catalogue.PROBES, {"tenant": name}, 1)
    made.add_histogram(catalogue.CALL_DURATION, {"tenant": name}, np.zeros(28, np.uint64), 0.0, 0.0)
    assert {dict(labels)["tenant"] for _, labels in parsed(made.text().encode())} == {name}


def test_names_follow_the_conventions() -> None:
    for one in METRICS:
        assert re.fullmatch(r"stalltop_[a-z0-9]+(_[a-z0-9]+)*", one.name)
        assert not re.search(r"_(percent|ns|mhz|millijoules|ms)(_|$)|_total$", one.name)
        assert one.about[0].isupper() or one.about[0].isdigit()
        assert not one.about.endswith(".")
    assert len({one.name for one in METRICS}) == len(METRICS)


def test_figures_are_scaled_to_base_units() -> None:
    scales = {one.figure.name: (one.metric.series, one.scale) for one in FIGURES}
    assert scales["utilization_percent"] == ("stalltop_device_utilization_ratio", 0.01)
    assert scales["sm_clock_mhz"] == ("stalltop_device_sm_clock_hertz", 1e6)
    assert scales["energy_millijoules"] == ("stalltop_device_energy_joules_total", 1e-3)
    assert scales["power_held_ns"] == ("stalltop_device_power_held_seconds_total", 1e-9)
    assert scales["memory_used_bytes"] == ("stalltop_device_memory_used_bytes", 1.0)
