"""Prepares each batch in a pool of threads that PyTorch (OpenMP) or ONNX Runtime keeps, then makes a step on
the device. Number 0 of the control file is the number of these threads."""

import argparse
from collections.abc import Callable

import control
import gpu
import numpy
import torch

_IMAGES = 24
_SIDE = 160
_WIDTH = 384


def by_torch() -> Callable[[int], None]:
    """Returns a function that prepares a batch by PyTorch's own operators."""
    images = torch.rand(_IMAGES, 3, _SIDE, _SIDE)

    def prepare(threads: int) -> None:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        resized = torch.nn.functional.interpolate(images, size=224, mode="bilinear", antialias=False)
        resized.sub_(0.45).div_(0.22)

    return prepare


def by_onnx() -> Callable[[int], None]:
    """Returns a function that prepares a batch by a small model that ONNX Runtime runs on the CPU."""
    import onnxruntime
    from onnx import TensorProto, helper

    layers = [f"layer{number}" for number in range(6)]
    weights = [
        helper.make_tensor(
            name,
            TensorProto.FLOAT,
            (_WIDTH, _WIDTH),
            numpy.random.rand(_WIDTH, _WIDTH).astype("float32").tobytes(),
            raw=True,
        )
        for name in layers
    ]
    names = ["input", *(f"{name}-done" for name in layers)]
    nodes = [
        helper.make_node("MatMul", [before, name], [after])
        for before, name, after in zip(names, layers, names[1:], strict=False)
    ]
    shape = (_WIDTH, _WIDTH)
    graph = helper.make_graph(
        nodes,
        "preprocessing",
        [helper.make_tensor_value_info(names[0], TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, shape)],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data = {names[0]: numpy.random.rand(*shape).astype("float32")}
    sessions = {}

    def prepare(threads: int) -> None:
        if threads not in sessions:
            chosen = onnxruntime.SessionOptions()
            chosen.intra_op_num_threads = threads
            sessions.clear()
            sessions[threads] = onnxruntime.InferenceSession(
                model.SerializeToString(), chosen, providers=["CPUExecutionProvider"]
            )
        sessions[threads].run(None, data)

    return prepare


def main() -> None:
    """Trains until it is killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pool", choices=("torch", "onnx"), default="torch")
    prepare = by_onnx() if parser.parse_args().pool == "onnx" else by_torch()
    steps = 0
    while True:
        prepare(int(control.number()))
        gpu.step()
        steps += 1
        if steps == 20:
            control.ready()


if __name__ == "__main__":
    main()
