"""Tests baselines of rows in each window."""

from __future__ import annotations

from dataclasses import replace

from stalltop.diagnosis.engine import Diagnosis
from stalltop.diagnosis.normals import KNOWN_WINDOWS
from stalltop.model.merge.merging import merge
from stalltop.model.merge.packing import pack
from stalltop.model.merge.sliding import Sliding
from stalltop.model.window import Window
from stalltop.recordings.message.decoding import MessageDecoder
from stalltop.recordings.message.encoding import encode
from tests.windows.by_hand import Calls, key, window

ROW = key()
LATE = key("cudaMalloc")


def at(number: int, *calls: Calls, host: str = "gpu7") -> Window:
    return window(calls or [Calls(ROW, [1_000_000] * 200)], start=1_000.0 + number, host=host)


def learned(diagnosis: Diagnosis, windows: int = KNOWN_WINDOWS + 1) -> Window:
    found = at(0)
    for number in range(windows):
        found = diagnosis.add(at(number))
    return found


def test_a_window_has_no_baseline_before_enough_were_seen() -> None:
    assert learned(Diagnosis(), KNOWN_WINDOWS - 1).normals == {}


def test_each_window_has_the_learned_baselines() -> None:
    p50_ns, p99_ns = learned(Diagnosis()).normals[ROW]
    assert 990_000 < p50_ns <= p99_ns < 1_010_000


def test_a_baseline_needs_no_current_call_and_stays_on_its_host() -> None:
    diagnosis = Diagnosis()
    learned(diagnosis)
    later = diagnosis.add(at(40, Calls(LATE, [5_000])))
    assert set(later.normals) == {ROW}
    assert diagnosis.add(at(41, Calls(key("cudaFree", host="gpu8"), [5_000]), host="gpu8")).normals == {}


def test_merged_windows_have_the_baselines_of_the_last() -> None:
    first, last = (replace(at(number), normals={ROW: (1, number)}) for number in (1, 2))
    assert merge([first, last]).normals == {ROW: (1, 2)}
    sliding = Sliding(10.0)
    sliding.push(first)
    assert sliding.push(last).normals == {ROW: (1, 2)}
    assert pack(last).unpack().normals == {}


def test_merged_hosts_keep_their_baselines_under_renamed_tenants() -> None:
    other = replace(at(0, Calls(key(host="gpu8"), [5])), host="gpu8", normals={key(host="gpu8"): (3, 4)})
    fleet = merge([replace(at(0), normals={ROW: (1, 2)}), other])
    assert fleet.normals == {
        ROW._replace(tenant="gpu7/docker:aa"): (1, 2),
        key(host="gpu8", tenant="gpu8/docker:aa"): (3, 4),
    }
    assert set(fleet.normals) == set(fleet.rows.keys)


def test_an_encoded_window_has_its_baselines() -> None:
    one = replace(at(0, Calls(ROW, [5]), Calls(LATE, [7])), normals={LATE: (1_000, 2_000)})
    assert MessageDecoder().decode(encode(one)).window.normals == one.normals
