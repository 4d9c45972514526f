"""Paths of the CUDA libraries that ``scripts/fetch-vendor-libraries`` fetched; None for a library that is
missing."""

from __future__ import annotations

from pathlib import Path

VENDOR = Path(__file__).resolve().parents[3] / ".vendor"


def _first(*patterns: str) -> Path | None:
    for pattern in patterns:
        for path in sorted(VENDOR.glob(pattern)):
            if path.is_file() and not path.is_symlink():
                return path
    return None


CUDART12 = _first("cudart12/nvidia/*/lib/libcudart.so.12")
CUDART13 = _first("cudart13/nvidia/*/lib/libcudart.so.13")
LIBCUDA = _first("libcuda/usr/lib/**/libcuda.so.*")
LIBNVML = _first("libnvml/usr/lib/**/libnvidia-ml.so.*")
HEADERS = tuple(
    header.parent
    for header in (_first(f"{name}/nvidia/*/include/cuda.h") for name in ("cudart12", "cudart13"))
    if header is not None
)
