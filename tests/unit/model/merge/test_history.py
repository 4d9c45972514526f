"""Tests the history in memory: old windows are merged, and the history is bounded in size."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given

from stalltop.model.evidence import HOST_GAP, HOST_LAYER, Charge, Evidence
from stalltop.model.merge.history import LEVELS, History
from stalltop.model.merge.merging import merge
from stalltop.model.merge.packing import Peak, pack
from stalltop.model.window import Window
from tests.windows.by_hand import Calls, key, row_table, window
from tests.windows.drawn import FEW, sequences
from tests.windows.full import CHAINS, EVIDENCE


def ticks(number: int, *, first: int = 0) -> list[Window]:
    """Returns one-second windows of three rows whose values depend on the time."""
    return [
        window(
            [Calls(key(pid=pid), [100 + at % 50, 1_000 * pid], 0, at) for pid in (1, 2, 3)],
            start=1_000.0 + at,
        )
        for at in range(first, first + number)
    ]


@FEW
@given(sequences())
def test_windows_are_returned_unchanged(parts: list[Window]) -> None:
    history = History()
    for part in parts:
        history.add(part)
    found = history.latest(1_000.0)
    assert len(found) == len(parts) == len(history)
    for one, other in zip(found, parts, strict=True):
        assert row_table(one.rows) == row_table(other.rows)
        assert (one.evidence, one.chains, one.devices) == (other.evidence, other.chains, other.devices)
        assert (one.start, one.seconds, one.tenants, one.loss) == (
            other.start,
            other.seconds,
            other.tenants,
            other.loss,
        )
        assert all(
            getattr(one.rows, name).dtype == getattr(other.rows, name).dtype
            for name in ("calls", "errors", "bytes", "total_ns", "max_ns")
        )


def test_older_windows_get_coarser_and_nothing_is_lost() -> None:
    history = History()
    all_ticks = ticks(800)
    for tick in all_ticks:
        history.add(tick)
    lengths = [seconds for _, seconds in history.times()]
    fine = lengths.count(1.0)
    assert LEVELS[0][1] - 10 <= fine <= LEVELS[0][1] + 1
    assert set(lengths[1:-fine]) == {10.0}
    assert sum(lengths) == 800 == history.seconds
    starts = [start for start, _ in history.times()]
    assert starts == sorted(starts)
    whole = merge(history.latest(800))
    assert row_table(whole.rows) == row_table(merge(all_ticks).rows)


def test_windows_older_than_the_last_level_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stalltop.model.merge.history.LEVELS", ((0.0, 5.0), (2.0, 10.0), (4.0, 30.0)))
    history = History()
    for tick in ticks(100):
        history.add(tick)
    lengths = [seconds for _, seconds in history.times()]
    assert sorted(set(lengths)) == [1.0, 2.0, 4.0]
    assert 30 <= sum(lengths) <= 36
    assert lengths == sorted(lengths, reverse=True) or lengths.index(2.0) > lengths.index(4.0)


def test_memory_stays_below_its_bound_and_the_newest_windows_stay() -> None:
    one = History()
    for tick in ticks(1):
        one.add(tick)
    bound = one.bytes * 100
    history = History(bound)
    for number, tick in enumerate(ticks(400), start=1):
        history.add(tick)
        assert history.bytes <= bound
        assert row_table(history.at(-1).rows) == row_table(tick.rows), number
    lengths = [seconds for _, seconds in history.times()]
    assert lengths[-50:] == [1.0] * 50
    assert history.seconds > 150, "the oldest windows must be merged before any is dropped"


def test_a_window_larger_than_the_bound_is_not_kept() -> None:
    history = History(100)
    history.add(ticks(1)[0])
    assert (len(history), history.bytes) == (0, 0)


def test_windows_are_found_by_time() -> None:
    history = History()
    assert history.latest(10) == []
    assert history.between(0, 1e12) == []
    for tick in ticks(20):
        history.add(tick)
    assert [part.start for part in history.between(1_003.5, 1_006.0)] == [1_003.0, 1_004.0, 1_005.0]
    assert [part.start for part in history.latest(2.5)] == [1_017.0, 1_018.0, 1_019.0]
    assert history.at(0).start == 1_000.0
    with pytest.raises(IndexError):
        history.at(20)


def test_windows_are_not_merged_across_a_gap() -> None:
    history = History()
    for tick in [*ticks(5), *ticks(700, first=100_000)]:
        history.add(tick)
    assert (1_000.0, 5.0) in history.times()


def test_unused_keys_are_removed() -> None:
    history = History(200_000)
    for number in range(5_000):
        history.add(window([Calls(key(pid=number), [5])], start=1_000.0 + number))
    assert (
        history._keys.keys() == history._uses.keys() == {key for part in history.parts for key in part.keys}
    )


def test_memory_is_bounded_although_each_container_lives_for_a_second() -> None:
    bound = 512 << 10
    history = History(bound)
    tracemalloc.start()
    try:
        for number in range(1_600):
            own = [
                Calls(key(tenant=f"docker:{number:064x}", pid=number, operation=f"op{n}"), [5])
                for n in range(20)
            ]
            history.add(window(own, start=1_000.0 + number))
            if number == 800:
                gc.collect()  # also empties CPython's lists of freed tuples, which count as traced memory
                settled, _ = tracemalloc.get_traced_memory()
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert history.bytes <= bound
    assert kept < 1.1 * settled
    print("KEPT", kept, settled)
    assert kept < 1.5 * bound


def test_a_bound_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        History(0)


def busy(at: int) -> Window:
    """Returns a window of a host on which hundreds of processes take time from each other."""
    charges = tuple(
        Charge("docker:aa", pid, "p", HOST_LAYER, HOST_GAP, "runqueue", "cri:bb", culprit, "hog", at * pid, 3)
        for pid in range(30)
        for culprit in range(20)
    )
    return replace(window(start=1_000.0 + at), evidence=replace(EVIDENCE, charges=charges), chains=CHAINS)


def test_evidence_is_small_and_counts_towards_the_bound() -> None:
    history = History()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for at in range(50):
            history.add(busy(at))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 50 * 20_000, "evidence must be packed: 600 charges take over 100 KB as objects"
    assert 50 * 2_000 < history.bytes < 50 * 20_000
    assert history.at(-1).evidence == busy(49).evidence
    assert history.at(0).chains == CHAINS
    bound = history.bytes // 2
    short = History(bound)
    for at in range(50):
        short.add(busy(at))
        assert short.bytes <= bound
    assert short.at(-1).evidence == busy(49).evidence


def test_packing_removes_the_unpacked_evidence() -> None:
    packed = pack(busy(3))
    assert (packed.window.evidence, packed.window.chains) == (Evidence(), ())
    assert (packed.told().evidence, packed.unpack().chains) == (busy(3).evidence, CHAINS)
    assert pack(window()).bytes < 5_000


def test_the_peak_of_a_time_survives_merging() -> None:
    worst, mild = CHAINS[0], replace(CHAINS[0], id="mild", severity="low", lost_ms_per_s=1.0)
    history = History()
    for at, tick in enumerate(ticks(700)):
        began = replace(worst, severity="high", lost_ms_per_s=80.0, since=1_007.0, open=True)
        chains = (began, replace(mild, since=1_003.0, open=True)) if at == 7 else ()
        added = history.add(replace(tick, chains=chains))
        assert added is history.parts[-1]
        assert added.peak == (Peak(81.0, 1, 1) if at == 7 else Peak())
    assert history.times()[0] == (1_000.0, 10.0)
    assert history.parts[0].peak == Peak(81.0, 1, 1)
    assert history.parts[1].peak == Peak()
    assert history.at(0).chains == (), "a merged window has only the chains that were there at its end"


def test_information_and_ended_chains_are_no_peak() -> None:
    info = replace(CHAINS[0], severity="info", open=True)
    over = replace(CHAINS[0], severity="high", open=False)
    assert pack(replace(ticks(1)[0], chains=(info, over))).peak == Peak()
    assert Peak.highest([]) == Peak()


def test_a_chain_begins_in_the_first_window_that_shows_it() -> None:
    windows = ticks(5)
    sure = replace(CHAINS[0], since=windows[0].start, open=True, severity="high")
    over = replace(sure, open=False)
    shown = ((), (), (sure,), (over,), (sure,))
    history = History()
    began = [
        history.add(replace(one, chains=chains)).peak.began
        for one, chains in zip(windows, shown, strict=True)
    ]
    assert began == [5, 5, 1, 5, 5]


def test_windows_of_the_past_are_put_before_those_that_are_kept() -> None:
    whole, late = History(), History()
    seconds = [window([Calls(key(), [10 + n])], start=1_000.0 + n, seconds=1.0) for n in range(700)]
    for one in seconds:
        whole.add(one)
    for one in seconds[690:]:
        late.add(one)
    past = [part for part in whole.parts if part.window.end <= seconds[690].start + 0.01]
    late.prepend(past[-50:])
    late.prepend(past[:-50])
    late.prepend(past[:3])  # these are there already
    assert late.times() == whole.times()
    assert late.bytes == whole.bytes
    assert [part.peak for part in late.parts] == [part.peak for part in whole.parts]
    for n in range(700, 760):
        one = window([Calls(key(), [10 + n])], start=1_000.0 + n, seconds=1.0)
        whole.add(one)
        late.add(one)
    assert late.times() == whole.times()
    small = History(most_bytes=3 * past[-1].bytes)
    small.add(seconds[699])
    small.prepend(past)
    assert small.bytes <= small.most_bytes
    assert small.parts[-2].window.end == seconds[690].start, "the newest of the past are kept"
    small.add(window([Calls(key(), [10])], start=1_700.0, seconds=1.0))
    assert small.bytes <= small.most_bytes
