"""Tests reading what threads did since the previous read, and on which CPUs they were."""

from __future__ import annotations

import numpy as np

from stalltop.model.window import SPLITS
from stalltop.probes import layout
from stalltop.probes.maps.raw import RawPlaced
from stalltop.probes.maps.works import Works

MS = 1_000_000
LOCK, SLEEP = SPLITS.index("lock"), SPLITS.index("sleep")


def test_parts_add_up_to_the_time_between_samples() -> None:
    off, threads = np.zeros(4, layout.OFF_CPU), np.zeros(4, layout.THREAD)
    threads[2]["tid"], threads[2]["shown_tid"], threads[2]["tgid"], threads[2]["link"] = 11, 11, 10, 1
    off[2]["since_ns"], off[2]["born_ns"] = 100 * MS, 60 * MS
    off[2]["all"][LOCK] = 30 * MS
    works = Works(off, lambda: threads, began_ns=50 * MS)
    (first,) = works.read(200 * MS)
    assert (first.tgid, first.tid, first.startup_ns) == (10, 11, 40 * MS)
    assert first.split_ns[LOCK] == 30 * MS
    assert sum(first.split_ns) == 100 * MS
    off[2]["all"][SLEEP] = 70 * MS
    (second,) = works.read(300 * MS)
    assert (second.split_ns[SLEEP], second.split_ns[0], second.startup_ns) == (70 * MS, 30 * MS, 0)


def test_a_wait_that_has_not_ended_counts() -> None:
    off, threads = np.zeros(2, layout.OFF_CPU), np.zeros(2, layout.THREAD)
    threads[0]["tid"], threads[0]["shown_tid"], threads[0]["tgid"], threads[0]["link"] = 5, 5, 5, 2
    off[0]["since_ns"] = 100 * MS
    threads[0]["off_since_ns"], threads[0]["off_for"] = 110 * MS, SLEEP
    works = Works(off, lambda: threads, began_ns=0)
    (first,) = works.read(200 * MS)
    assert (first.split_ns[SLEEP], first.split_ns[0]) == (90 * MS, 10 * MS)
    off[0]["all"][SLEEP] = 140 * MS
    threads[0]["off_since_ns"] = 0
    (second,) = works.read(300 * MS)
    assert (second.split_ns[SLEEP], second.split_ns[0]) == (50 * MS, 50 * MS)


def test_a_process_older_than_tracing_has_no_startup() -> None:
    off, threads = np.zeros(1, layout.OFF_CPU), np.zeros(1, layout.THREAD)
    threads[0]["tid"], threads[0]["shown_tid"], threads[0]["tgid"], threads[0]["link"] = 5, 5, 5, 1
    off[0]["since_ns"], off[0]["born_ns"] = 100 * MS, 20 * MS
    (first,) = Works(off, lambda: threads, began_ns=50 * MS).read(150 * MS)
    assert first.startup_ns == 0


def test_another_thread_with_the_record_begins_anew() -> None:
    off, threads = np.zeros(1, layout.OFF_CPU), np.zeros(1, layout.THREAD)
    threads[0]["tid"], threads[0]["shown_tid"], threads[0]["tgid"], threads[0]["link"] = 5, 5, 5, 1
    off[0]["since_ns"], off[0]["all"][LOCK] = 100 * MS, 80 * MS
    works = Works(off, lambda: threads, began_ns=0)
    works.read(200 * MS)
    threads[0]["tid"], threads[0]["shown_tid"] = 6, 6
    off[0]["since_ns"], off[0]["all"] = 250 * MS, 0
    off[0]["all"][LOCK] = 10 * MS
    (found,) = works.read(300 * MS)
    assert (found.tid, found.split_ns[LOCK], sum(found.split_ns)) == (6, 10 * MS, 50 * MS)


def test_samples_say_on_which_cpu_threads_are() -> None:
    off, threads = np.zeros(4, layout.OFF_CPU), np.zeros(4, layout.THREAD)
    for record, tid in enumerate((11, 12, 13)):
        threads[record]["tid"], threads[record]["shown_tid"], threads[record]["tgid"] = tid, tid, 10
        threads[record]["cpu"] = 3
    threads[1]["off_since_ns"] = 7 * MS  # thread 12 is blocked, so it is on no CPU
    threads[2]["off_since_ns"], threads[2]["waiting_ns"], threads[2]["cpu"] = 7 * MS, 8 * MS, 1
    works = Works(off, lambda: threads, began_ns=0)
    works.look()  # samples no thread, because threads are known only after ``read``
    works.read(10 * MS)
    works.look()
    threads[0]["cpu"] = 1
    works.look()
    assert sorted(works.placed()) == [RawPlaced(10, 1, 3), RawPlaced(10, 3, 1)]
    assert works.placed() == []


def test_a_thread_that_is_stopped_now_says_for_how_long() -> None:
    off, threads = np.zeros(1, layout.OFF_CPU), np.zeros(1, layout.THREAD)
    threads[0]["tid"], threads[0]["shown_tid"], threads[0]["tgid"] = 5, 5, 5
    off[0]["since_ns"] = 100 * MS
    threads[0]["off_since_ns"], threads[0]["off_for"] = 150 * MS, SPLITS.index("other")
    threads[0]["how"] = layout.How.FROZEN
    works = Works(off, lambda: threads, began_ns=0)
    found = [works.read(at * MS)[0] for at in (200, 300)]
    assert [(each.held, each.held_ns) for each in found] == [
        (layout.How.FROZEN, 50 * MS),
        (layout.How.FROZEN, 100 * MS),
    ]
    threads[0]["woken_ns"] = 310 * MS
    assert works.read(320 * MS)[0].held == 0
