"""Tests the watch that reports which processes have ended."""

import os
import subprocess
import time

from stalltop.probes.tenants.process_watch import ProcessWatch, is_alive


def wait_ended(watch: ProcessWatch, wanted: set[int]) -> set[int]:
    gone: set[int] = set()
    deadline = time.monotonic() + 30
    while not wanted <= gone and time.monotonic() < deadline:
        gone |= watch.ended()
        time.sleep(0.01)
    return gone


def test_an_ending_process_is_reported_once() -> None:
    watch = ProcessWatch()
    with (
        subprocess.Popen(["sleep", "60"]) as living,
        subprocess.Popen(["cat"], stdin=subprocess.PIPE) as ending,
    ):
        watch.watch([living.pid, ending.pid])
        assert watch.ended() == set()
        assert ending.stdin is not None
        ending.stdin.close()
        assert wait_ended(watch, {ending.pid}) == {ending.pid}
        assert watch.ended() == set()
        assert is_alive(living.pid)
        living.kill()
    watch.close()


def test_a_process_that_ended_before_the_watch_is_reported() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    watch = ProcessWatch()
    watch.watch([process.pid])
    assert watch.ended() == {process.pid}
    watch.close()


def test_a_zombie_is_not_alive() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    deadline = time.monotonic() + 30
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(pid)
    os.waitpid(pid, 0)
    assert is_alive(os.getpid())


def test_close_closes_all_descriptors() -> None:
    watch = ProcessWatch()
    before = len(os.listdir("/proc/self/fd"))
    watch.watch([os.getpid(), os.getppid()])
    watch.close()
    watch.close()
    assert len(os.listdir("/proc/self/fd")) == before
