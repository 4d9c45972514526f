"""Windows as JSON: what a served screen gets, and what files of the first version hold."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stalltop.diagnosis.engine import explain
from stalltop.formats.documents import saved
from stalltop.formats.documents.saved import dump, load
from stalltop.formats.documents.window import document
from stalltop.formats.text.explain import explain_document, explain_text
from stalltop.formats.text.window import table
from stalltop.model.errors import BadUsage
from stalltop.model.evidence import Evidence
from stalltop.model.window import Window
from tests.unit.full_window import CHAINS, EVIDENCE, full_window
from tests.unit.windows import row_table


def written(one: Window, path: Path) -> Path:
    path.write_bytes(dump(one))
    return path


def content(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return found


def rewritten(change: Callable[[dict[str, Any]], object]) -> bytes:
    """A saved file whose content was changed."""
    found = json.loads(gzip.decompress(dump(full_window())))
    change(found)
    return gzip.compress(json.dumps(found).encode())


KEY: list[object] = list(full_window().rows.keys[0])
GOOD = dump(full_window())
BAD: dict[str, bytes] = {
    "empty": b"",
    "foreign": b"PK\x03\x04 something else",
    "text": b"hello\n" * 100,
    "truncated": GOOD[: len(GOOD) // 2],
    "without its checksum": GOOD[:-4],
    "followed by something": GOOD + b"x",
    "damaged": GOOD[:200] + bytes([GOOD[200] ^ 255]) + GOOD[201:],
    "no JSON": gzip.compress(b"{"),
    "no text": gzip.compress(b"\xff\xfe\xff"),
    "deep": gzip.compress(b"[" * 200_000),
    "a long number": gzip.compress(b"1" * 10_000),
    "a list": gzip.compress(b"[]"),
    "other JSON": gzip.compress(b'{"format": "something else"}'),
    "no version": rewritten(lambda file: file.pop("version")),
    "version 0": rewritten(lambda file: file.update(version=0)),
    "no window": rewritten(lambda file: file.pop("window")),
    "NaN": rewritten(lambda file: file["window"].update(start=float("nan"))),
    "infinity": rewritten(lambda file: file["window"].update(start=1e999)),
    "longer than any float": rewritten(lambda file: file["window"].update(seconds=10**400)),
    "true for a number": rewritten(lambda file: file["window"].update(seconds=True)),
    "one for true": rewritten(lambda file: file["window"]["open_calls"][0].update(nested=1)),
    "an object for a list": rewritten(lambda file: file["window"]["devices"].update(devices={})),
    "a histogram that is no text": rewritten(lambda file: file["window"]["rows"].update(histograms=[1] * 5)),
    "far future": rewritten(lambda file: file["window"].update(start=1e300)),
    "negative length": rewritten(lambda file: file["window"].update(seconds=-1)),
    "text for a number": rewritten(lambda file: file["window"].update(seconds="2")),
    "number for text": rewritten(lambda file: file["window"].update(host=5)),
    "no simulated": rewritten(lambda file: file["window"].pop("simulated")),
    "no tenants": rewritten(lambda file: file["window"].pop("tenants")),
    "a tenant of no kind": rewritten(lambda file: file["window"]["tenants"][0].update(kind="alien")),
    "a tenant without id": rewritten(lambda file: file["window"]["tenants"][0].pop("id")),
    "no coverage": rewritten(lambda file: file["window"].update(coverage=None)),
    "two loads": rewritten(lambda file: file["window"]["system"].update(load=[1, 2])),
    "a negative loss": rewritten(lambda file: file["window"]["loss"].update(no_slot=-1)),
    "rows missing": rewritten(lambda file: file["window"]["rows"]["calls"].pop()),
    "histograms missing": rewritten(lambda file: file["window"]["rows"]["histograms"].pop()),
    "a negative count": rewritten(lambda file: file["window"]["rows"].update(errors=[-1, 0, 0, 0, 0])),
    "a huge count": rewritten(lambda file: file["window"]["rows"].update(errors=[1 << 64, 0, 0, 0, 0])),
    "true for a count": rewritten(lambda file: file["window"]["rows"].update(errors=[True, 0, 0, 0, 0])),
    "a key twice": rewritten(lambda file: file["window"]["rows"]["keys"].__setitem__(1, KEY)),
    "a short key": rewritten(lambda file: file["window"]["rows"]["keys"][0].__delitem__(slice(5, None))),
    "a wrong histogram": rewritten(lambda file: file["window"]["rows"]["histograms"].__setitem__(0, "AAAA")),
    "evidence that is a list": rewritten(lambda file: file["window"].update(evidence=[])),
    "a charge that is too short": rewritten(
        lambda file: file["window"]["evidence"]["charges"][0].__delitem__(slice(9, None))
    ),
    "a charge of no kind": rewritten(
        lambda file: file["window"]["evidence"]["charges"][0].__setitem__(5, "whim")
    ),
    "an event in the far future": rewritten(
        lambda file: file["window"]["evidence"]["events"][0].update(time=1e300)
    ),
    "a chain of no severity": rewritten(lambda file: file["window"]["chains"][0].update(severity="mild")),
    "a chain of no time": rewritten(lambda file: file["window"]["chains"][0].update(since=-1)),
    "a link of no role": rewritten(lambda file: file["window"]["chains"][0]["links"][0].update(role="extra")),
    "splits without names": rewritten(lambda file: file["window"]["rows"].update(splits=None)),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_with_a_reason(name: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.stalltop"
    path.write_bytes(BAD[name])
    with pytest.raises(BadUsage, match="no window saved by stalltop, or damaged: "):
        load(path)


def test_a_newer_file_is_refused_by_its_version(tmp_path: Path) -> None:
    path = tmp_path / "new.stalltop"
    path.write_bytes(rewritten(lambda file: file.update(version=2, window="anything")))
    with pytest.raises(BadUsage, match="newer stalltop") as caught:
        load(path)
    assert "update" in caught.value.remedy


def test_fields_of_later_programs_are_passed_over(tmp_path: Path) -> None:
    def add(file: dict[str, Any]) -> None:
        file["window"]["weather"] = "fine"
        file["window"]["tenants"][0]["colour"] = "blue"
        del file["window"]["coverage"]["probe_ns"]

    path = tmp_path / "later.stalltop"
    path.write_bytes(rewritten(add))
    found = load(path)
    assert found.coverage.probe_ns == 0
    assert found.tenants == full_window().tenants


def test_a_file_from_before_a_field_was_added_is_read(tmp_path: Path) -> None:
    path = written(full_window(), tmp_path / "w.stalltop")
    file = content(path)
    for call in file["window"]["open_calls"]:
        del call["ended"]
    path.write_bytes(gzip.compress(json.dumps(file).encode()))
    expected = tuple(replace(call, ended=False) for call in full_window().open_calls)
    assert load(path).open_calls == expected


def test_a_file_from_before_evidence_is_read(tmp_path: Path) -> None:
    def older(file: dict[str, Any]) -> None:
        del file["window"]["evidence"], file["window"]["chains"]
        for device in file["window"]["devices"]["devices"]:
            del device["xids"], device["pcie_replays"]

    path = tmp_path / "w.stalltop"
    path.write_bytes(rewritten(older))
    found, full = load(path), full_window()
    assert (found.evidence, found.chains) == (Evidence(), ())
    assert found.devices.devices[0].pcie_replays is None
    assert row_table(found.rows) == row_table(full.rows)


def test_evidence_of_later_programs_is_passed_over(tmp_path: Path) -> None:
    def later(file: dict[str, Any]) -> None:
        evidence = file["window"]["evidence"]
        evidence["moon"] = "full"
        evidence["charges"][0].append("more")
        evidence["processes"][0]["mood"] = 5
        file["window"]["chains"][0]["links"][0]["mood"] = 5

    path = tmp_path / "w.stalltop"
    path.write_bytes(rewritten(later))
    assert (load(path).evidence, load(path).chains) == (EVIDENCE, CHAINS)


def damaged(seed: int) -> bytes:
    """The content of a good file, one value in evidence or chains changed to another one of any kind."""
    random = Random(seed)
    found = json.loads(gzip.decompress(GOOD))
    places: list[tuple[Any, Any]] = []

    def walk(item: Any) -> None:
        for name in item if isinstance(item, dict) else range(len(item)):
            places.append((item, name))
            if isinstance(item[name], (dict, list)):
                walk(item[name])

    walk({name: found["window"][name] for name in ("evidence", "chains")})
    where, name = random.choice(places)
    where[name] = random.choice(
        (None, True, -1, 1 << 64, 1e300, -1e300, 0.5, "\x1b[2J", "x" * 5_000, [], {}, [[]], {"a": 1})
    )
    return gzip.compress(json.dumps(found).encode(), 1)


def test_damage_to_evidence_is_refused_or_changes_nothing_else(tmp_path: Path) -> None:
    """What opens is a window that every output can show."""
    path = tmp_path / "w.stalltop"
    opened = 0
    for seed in range(400):
        path.write_bytes(damaged(seed))
        try:
            found = load(path)
        except BadUsage:
            continue
        opened += 1
        chains = (*found.chains, *explain(replace(found, chains=())))
        json.dumps([document(found), explain_document(found, chains)], allow_nan=False)
        assert "\x1b" not in explain_text(found, chains, width=100, colour=False)
        assert "\x1b" not in table(found, width=100, colour=False)
        assert "\x1b" not in repr((found.evidence, found.chains))
    assert 20 < opened < 380


def test_a_file_that_unpacks_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "MOST_BYTES", 1 << 20)
    path = tmp_path / "bomb.stalltop"
    path.write_bytes(gzip.compress(b" " * (64 << 20)))
    assert path.stat().st_size < 1 << 20
    with pytest.raises(BadUsage, match="content is too large"):
        load(path)
    path.write_bytes(bytes((1 << 20) + 1))
    with pytest.raises(BadUsage, match="too large"):
        load(path)


def test_saved_text_is_plain_json(tmp_path: Path) -> None:
    found = content(written(full_window(), tmp_path / "w.stalltop"))
    assert (found["format"], found["version"]) == ("stalltop", 1)
    assert found["window"]["rows"]["histograms"][0].startswith("HISTF")
