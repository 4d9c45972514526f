"""Tests that each tenant in a query has a unique number and a unique short name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stalltop.model.tenant import Tenant
from stalltop.model.window import Window
from stalltop.recordings.query.ask import answer
from stalltop.recordings.read.reading import open_file
from tests.windows.by_hand import Calls, key, window
from tests.windows.known_calls import write_file


def told(path: Path, windows: Sequence[Window]) -> dict[str, tuple[str, int, int]]:
    """Returns for each tenant and host: short name, number, and how many calls a join by number finds."""
    write_file(path, windows)
    with open_file(path) as file:
        found = answer(
            file,
            "SELECT tenant || ' ' || host, container_id, c.cgroup_id, count(e.op) FROM containers c"
            " LEFT JOIN cuda_events e ON e.cgroup_id = c.cgroup_id GROUP BY 1",
            60,
        )
        return {row[0]: row[1:] for row in found.rows}


def of(*tenants: Tenant, host: str = "gpu7", start: float = 1_000.0) -> Window:
    """Returns a window in which the first tenant makes one call, the second tenant two calls, and so on."""
    calls = [Calls(key(tenant=one.id, host=host), [9] * (at + 1)) for at, one in enumerate(tenants)]
    return replace(window(calls, host=host, start=start), tenants={one.id: one for one in tenants})


def test_a_unique_name_gets_no_suffix(tmp_path: Path) -> None:
    found = told(
        tmp_path / "file",
        [
            of(
                Tenant("docker:aa", "train", container_id="aa" * 32, cgroup_id=7),
                Tenant("docker:bb", "serve", container_id="bb" * 32, cgroup_id=8),
                Tenant("docker:cc", "serve", container_id="cc" * 32, cgroup_id=9),
                Tenant("cgroup:10", "", kind="process", cgroup_id=10),
            )
        ],
    )
    assert {name: row for name, (row, *_) in found.items()} == {
        "docker:aa gpu7": "train",
        "docker:bb gpu7": f"serve@{'b' * 12}",
        "docker:cc gpu7": f"serve@{'c' * 12}",
        "cgroup:10 gpu7": "cgroup:10",
    }
    assert [row[1:] for row in found.values()] == [(10, 4), (7, 1), (8, 2), (9, 3)]


def test_no_two_tenants_share_a_number(tmp_path: Path) -> None:
    """The number of a tenant is its cgroup id. stalltop makes up negative numbers if the id is unknown
    (without cgroup v2) or if two hosts use one id for different tenants."""
    found = told(
        tmp_path / "file",
        [
            of(Tenant("docker:aa", "a"), Tenant("docker:bb", "b"), Tenant("docker:cc", "c", cgroup_id=5)),
            of(Tenant("docker:aa", "a"), Tenant("docker:dd", "d", cgroup_id=5), host="gpu8", start=1_001.0),
        ],
    )
    numbers = [number for _, number, _ in found.values()]
    assert len(set(numbers)) == len(numbers) == 5
    assert all(number < 0 for number in numbers)
    assert {name: calls for name, (*_, calls) in found.items()} == {
        "docker:aa gpu7": 1,
        "docker:bb gpu7": 2,
        "docker:cc gpu7": 3,
        "docker:aa gpu8": 1,
        "docker:dd gpu8": 2,
    }
    assert len({row for row, *_ in found.values()}) == 5


def test_a_later_name_applies_to_all_calls(tmp_path: Path) -> None:
    found = told(
        tmp_path / "file",
        [
            of(Tenant("docker:aa", "aaaaaaaaaaaa", container_id="aa" * 32, cgroup_id=7)),
            of(Tenant("docker:aa", "train", container_id="aa" * 32, cgroup_id=7), start=1_001.0),
        ],
    )
    assert found == {"docker:aa gpu7": ("train", 7, 2)}


def test_calls_of_an_undescribed_tenant_are_listed(tmp_path: Path) -> None:
    made = replace(window([Calls(key(tenant="docker:zz"), [5, 6])]), tenants={})
    found = told(tmp_path / "file", [made])
    assert found["docker:zz gpu7"][2] == 2
    assert found["docker:zz gpu7"][0] == "docker:zz"
