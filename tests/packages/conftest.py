"""Fixtures of the tests of what is installed elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stalltop.demo.build import Built, build
from tests.kernel.harness import Workplace, workplace_in
from tests.packages.slurm import slurm, slurm_tree
from tests.packages.trees import Tree, image_tree


@pytest.fixture(scope="session")
def image() -> Path:
    """The root file system of the image; $STALLTOP_TEST_IMAGE is one that is built already."""
    made = os.environ.get("STALLTOP_TEST_IMAGE")
    return Path(made) if made else image_tree()


@pytest.fixture(scope="session")
def built() -> Built:
    return build()


@pytest.fixture
def workplace(built: Built) -> Iterator[Workplace]:
    with workplace_in(built) as workplace:
        yield workplace


@pytest.fixture(scope="session")
def cluster(image: Path, built: Built) -> Iterator[Tree]:
    """A tree in which Slurm runs."""
    tree = slurm_tree(image, built)
    with slurm(tree):
        yield tree
