"""Compiles a stripped library that registers CUDA kernels, as nvcc's code does."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

NAMES = [b"_Z5firstPfi", b"_Z6secondPfi", b"_Z5thirdPfi"]
SOURCE = """
extern void **__cudaRegisterFatBinary(void *);
extern void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *,
                                   void *, int *);
extern int cudaLaunchKernel(const void *, ...);
__attribute__((noinline)) void call_later(void *a, void (*function)(void), const char *b, const char *c)
{
    __asm__ volatile("" ::"r"(a), "r"(function), "r"(b), "r"(c));
}
#define KERNEL(number)                                                                           \\
    static void kernel##number(void) { __asm__ volatile("nop" ::"i"(number)); }                  \\
    int launch##number(void) { return cudaLaunchKernel((void *)kernel##number, 1, 1, 1, 1, 0); }
KERNEL(1) KERNEL(2) KERNEL(3)
static void other(void) { __asm__ volatile("nop; nop"); }
#define REGISTER(number, name)                                                                   \\
    __cudaRegisterFunction(handle, (const char *)kernel##number, (char *)name, name, -1, 0, 0, 0, 0, 0);
__attribute__((constructor)) static void tell_all(void)
{
    static int binary[8];
    void **handle = __cudaRegisterFatBinary(binary);
    REGISTER(1, "_Z5firstPfi") REGISTER(2, "_Z6secondPfi") REGISTER(3, "_Z5thirdPfi")
    call_later(handle, other, "not a mangled name", "not a mangled name");
    call_later(handle, other, "_Z3one", "_Z3two");
}
"""


def library(folder: Path, level: str = "-O2") -> Path:
    """Compiles a stripped library with CUDA kernels."""
    if shutil.which("gcc") is None or platform.machine() != "x86_64":
        pytest.skip("this machine has no gcc for x86-64")
    source, path = folder / "kernels.c", folder / f"kernels{level}.so"
    source.write_text(SOURCE)
    command = ["gcc", level, "-shared", "-fPIC", "-s", "-o", str(path), str(source)]
    subprocess.run(command, check=True, timeout=60)
    return path
