"""Makes steps on the device and saves a state of 4 MiB after every fifth step. It saves like programs that
must not lose their state: writes a new file, calls fsync, and renames the file. The argument is the
folder."""

import os
import pathlib
import sys

import control
import gpu
import torch

folder = pathlib.Path(sys.argv[1])
state = {f"layer{number}.weight": torch.zeros(1 << 17) for number in range(8)}


def save() -> None:
    """Saves the state."""
    with (folder / "new.pt").open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    (folder / "new.pt").rename(folder / "checkpoint.pt")


steps = 0
while True:
    gpu.step()
    steps += 1
    if steps % 5 == 0:
        save()
    if steps == 20:
        control.ready()
