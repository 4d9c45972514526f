"""Tests that an installed stalltop is one importable package with every file of the checkout."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from tests.unit.repository.checkout import ROOT, folders

CODE = ROOT / "src"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def test_the_package_links_every_folder() -> None:
    links = {link.name: link.resolve() for link in (CODE / "stalltop").iterdir() if link.is_symlink()}
    assert links == {name: ROOT / name for name in folders()}
    assert len(links) >= 10


def test_only_the_package_is_installed() -> None:
    assert SETTINGS["packages"]["find"] == {"where": ["src"], "include": ["stalltop*"]}
    assert {path.name for path in CODE.iterdir() if not path.is_symlink()} - {"stalltop.egg-info"} == {
        "stalltop"
    }


@pytest.mark.parametrize("name", sorted(folders()))
def test_no_folder_can_be_imported_under_a_second_name(name: str) -> None:
    # A module that is imported under two names exists twice, with two classes of each name. Another project's
    # module of that name is none of ours.
    script = f"""
import importlib.util
found = importlib.util.find_spec({name!r})
places = [] if found is None else [found.origin or "", *(found.submodule_search_locations or ())]
print([one for one in places if one.startswith({str(ROOT)!r}) and "/site-packages/" not in one])
"""
    done = subprocess.run([sys.executable, "-P", "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
    assert not any(module == name or module.startswith(f"{name}.") for module in sys.modules)


def test_every_data_file_is_listed() -> None:
    listed = {
        file
        for package, patterns in SETTINGS["package-data"].items()
        for pattern in patterns
        for file in CODE.joinpath(*package.split(".")).glob(pattern)
    }
    beside = {
        file
        for name in folders()
        for file in (CODE / "stalltop" / name).rglob("*")
        if file.is_file() and file.suffix not in (".py", ".pyc")
    }
    assert len(beside) > 20
    assert beside <= listed, beside - listed
