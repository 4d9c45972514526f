"""Tests what the page of a row says about the CUDA kernels that the row's processes launch."""

from __future__ import annotations

from dataclasses import replace

from stalltop.model.cuda_kernels import KernelCount
from stalltop.model.window import Window
from stalltop.tui.pages.sections import Frame
from stalltop.tui.row.cuda_kernels import MOST_KERNELS, kernels
from stalltop.tui.row.facts import facts
from stalltop.tui.views.path import Path, PathStep
from tests.windows.full import full_window

LAUNCH: Path = (PathStep("operation", "cudaLaunchKernel", "cudaLaunchKernel"),)
FRAME = Frame(width=98, height=40)


def text(one: Window, path: Path) -> list[str]:
    return ["".join(part for part, _ in line.parts) for line in kernels(facts(one, path), FRAME).lines]


def count(name: str, ns: int) -> KernelCount:
    return KernelCount(
        *("docker:aa", 100, "python3", "runtime", "cudaLaunchKernel", False, name, 1, 0, ns, ns, ((23, 1),)),
        device="0",
    )


def test_cuda_kernels_are_listed_by_time_and_the_rest_as_unknown() -> None:
    found = text(full_window(), LAUNCH)
    assert found[0].startswith("Kernels launched")
    assert [line.split("  ")[-1].strip() for line in found[1:]] == [
        "void scale<float>(float*, int)",
        "kernels whose names are not known",
    ]
    assert "98.8%" in found[1]  # 904 µs of the launches' 915 µs


def test_a_container_shows_what_its_processes_launch() -> None:
    assert len(text(full_window(), (PathStep("container", "docker:aa", "train"),))) == 3


def test_rows_without_launches_have_no_section_of_cuda_kernels() -> None:
    assert text(full_window(), (PathStep("operation", "ncclAllReduce", "ncclAllReduce"),)) == []


def test_nested_launches_refer_to_the_call_around_them() -> None:
    (_, said) = text(full_window(), (PathStep("operation", "cuLaunchKernel", "cuLaunchKernel"),))
    assert "that contain these" in said


def test_only_the_cuda_kernels_with_most_time_are_listed() -> None:
    many = tuple(count(f"kernel{number:02}", 1_000 << number) for number in range(MOST_KERNELS + 3))
    found = text(replace(full_window(), kernels=many), LAUNCH)
    assert "kernel10" in found[1]
    assert any("3 more" in line for line in found)
    assert not any("kernel02" in line for line in found)


def test_a_long_name_is_cut_and_similar_times_keep_their_order() -> None:
    kernels = (count("z" * 1000, 50_000_000), count("b", 50_100_000), count("a", 50_000_000))
    found = text(replace(full_window(), kernels=kernels), LAUNCH)
    assert [line.split("  ")[-1][:3] for line in found[1:4]] == ["a", "b", "zzz"]
    assert found[3].endswith("z…")
    assert len(found[3]) < 300
