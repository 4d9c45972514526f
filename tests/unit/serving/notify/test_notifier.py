"""Tests that receivers are independent, that failed messages are tried again, and that restarts repeat
nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stalltop.diagnosis.causes import TELLINGS
from stalltop.serving.notify import notifier as module
from stalltop.serving.notify.ledger import Ledger, ToldAlert
from stalltop.serving.notify.notifier import Notifier
from stalltop.serving.notify.told_file import ToldFile
from stalltop.serving.notify.wording import WordedMessage
from stalltop.serving.web_post import DeliveryError
from tests.unit.serving.host.tracers import until
from tests.unit.serving.notify.problems import problem, with_problems


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STEP_SECONDS", 0.01)
    monkeypatch.setattr(module, "_FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(module, "LONGEST_PAUSE_SECONDS", 0.05)


class MadeReceiver:
    """A receiver that runs ``take`` for each message, and keeps those that were taken."""

    refresh_seconds: float | None = None

    def __init__(self, name: str, take: Callable[[], object] = bool) -> None:
        self.name = name
        self._take = take
        self.got: list[WordedMessage] = []
        self.tries = 0

    def deliver(self, message: WordedMessage) -> None:
        self.tries += 1
        self._take()
        self.got.append(message)


@contextmanager
def notifying(path: Path, said: list[str], *receivers: MadeReceiver) -> Iterator[Notifier]:
    told = ToldFile(path, said.append)
    pairs = [(one, Ledger(told.told(one.name), severity="high", seconds=0.0)) for one in receivers]
    made = Notifier(pairs, told, TELLINGS, path.parent / "none", said.append)
    made.start()
    try:
        yield made
    finally:
        made.stop(60.0)


def test_a_failed_message_is_tried_again_and_the_failure_is_told_once(tmp_path: Path) -> None:
    working, said = threading.Event(), list[str]()

    def take() -> None:
        if not working.is_set():
            raise DeliveryError("cannot reach it")

    one = MadeReceiver("webhook", take)
    with notifying(tmp_path / "told", said, one) as made:
        made.take(with_problems(problem()))
        until(lambda: one.tries >= 4)
        working.set()
        until(lambda: len(said) == 2)
        assert [each.message.change for each in one.got] == ["opened"]
    assert said == ["webhook: cannot reach it; trying again", "webhook: works again"]


def test_a_receiver_that_hangs_delays_no_other(tmp_path: Path) -> None:
    end = threading.Event()
    slow, other = MadeReceiver("slack", end.wait), MadeReceiver("webhook")
    try:
        with notifying(tmp_path / "told", [], slow, other) as made:
            made.take(with_problems(problem()))
            until(lambda: slow.tries and other.got)
            made.take(with_problems(problem(), problem(cause="slow_disk")))
            until(lambda: len(other.got) == 2)
            assert slow.got == []
            end.set()
    finally:
        end.set()


def test_an_unexpected_error_ends_no_thread(tmp_path: Path) -> None:
    said = list[str]()
    faults = iter([KeyError("x")])

    def take() -> None:
        for fault in faults:
            raise fault

    one = MadeReceiver("webhook", take)
    with notifying(tmp_path / "told", said, one) as made:
        made.take(with_problems(problem()))
        until(lambda: one.got)
    assert said[0].startswith("webhook: KeyError: 'x'")


def test_a_restart_repeats_nothing(tmp_path: Path) -> None:
    path, before, after = tmp_path / "folder" / "told", MadeReceiver("webhook"), MadeReceiver("webhook")
    with notifying(path, [], before) as made:
        made.take(with_problems(problem()))
        until(lambda: path.exists())
    assert path.stat().st_mode & 0o777 == 0o600
    new = MadeReceiver("slack")
    with notifying(path, [], after, new) as made:
        made.take(with_problems(problem(), problem(cause="slow_disk")))
        until(lambda: after.got and len(new.got) == 2)
    assert [one.message.id for one in after.got] == ["slow_disk/serve"]


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"webhook": 1}', b'{"webhook": {"a": {}}}', b"\xff", b"[" * 9_999]
)
def test_a_damaged_file_is_reported_and_replaced(tmp_path: Path, content: bytes) -> None:
    path, said = tmp_path / "told", list[str]()
    path.write_bytes(content)
    told = ToldFile(path, said.append)
    assert len(said) == 1
    assert f"cannot read {path}" in said[0]
    one = ToldAlert("high", 1.5, 2.0, 3.0, "train is slow")
    told.save("webhook", {"a": one})
    assert ToldFile(path, said.append).told("webhook") == {"a": one}
    assert len(said) == 1


def test_a_file_that_cannot_be_written_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = list[str]()
    told = ToldFile(tmp_path / "file" / "told", said.append)
    told.save("webhook", {})
    told.save("webhook", {})
    assert len(said) == 1
