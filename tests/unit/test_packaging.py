"""An installed stalltop has every file that the checkout has."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
NOT_INSTALLED = ("bench", "scripts", "tests")


def packages() -> dict[str, Path]:
    """Folders with Python code that the program is made of, by their import names."""
    found = {file.parent for file in ROOT.glob("[a-z]*/**/__init__.py")}
    names = {".".join(folder.relative_to(ROOT).parts): folder for folder in found}
    return {name: folder for name, folder in names.items() if name.partition(".")[0] not in NOT_INSTALLED}


def test_every_package_is_listed() -> None:
    # A build leaves copies in build/, which is no package.
    assert {name for name in packages() if not name.startswith("build.")} == set(SETTINGS["packages"])


def test_every_file_beside_the_code_is_listed() -> None:
    listed = {
        file
        for package, patterns in SETTINGS["package-data"].items()
        for pattern in patterns
        for file in packages()[package].glob(pattern)
    }
    beside = {
        file
        for name in SETTINGS["packages"]
        if "." not in name
        for file in packages()[name].rglob("*")
        if file.is_file() and file.suffix not in (".py", ".pyc")
    }
    assert len(beside) > 20
    assert beside <= listed, beside - listed
