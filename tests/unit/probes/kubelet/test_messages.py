"""Tests decoding answers of kubelets and runtimes, with the field numbers of their published definitions.

The messages are those of k8s.io/kubelet/pkg/apis/podresources/v1, k8s.io/cri-api/pkg/apis/runtime/v1 and
k8s.io/api/core/v1, with other fields in between.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from stalltop.demo.grpc_server import GrpcServer
from stalltop.demo.kubelet import EVERY_SOCKET
from stalltop.formats.protobuf import encoded
from stalltop.model.devices.allocation import Allocation
from stalltop.probes.kubelet import cri, pod_resources, pods_api
from stalltop.probes.kubelet.pod import Pod, PodContainer
from stalltop.probes.kubelet.pods import PodReader
from tests.unit.probes.patient import be_patient

_KUBELET, _PODS, _RUNTIME = EVERY_SOCKET

GIVEN: Final = bytes.fromhex(
    "0aa4010a03742d3012036c61621a94010a05747261696e12240a0e6e76696469612e636f6d2f677075120547"
    "50552d3112054750552d301a040a02080112180a0f6578616d706c652e636f6d2f6e696312056e69632d301a"
    "0302ac02220b0a066d656d6f72791080202a391201631a036c6162222f0a120a106e76696469612e636f6d2f"
    "6770753d30120e6770752e6e76696469612e636f6d1a026e3122056770752d30220107"
)
"""ListPodResourcesResponse: two GPUs with their NUMA node, a network card, CPUs, memory, a claimed GPU."""
ALLOCATABLE: Final = bytes.fromhex(
    "0a1b0a0e6e76696469612e636f6d2f67707512054750552d301a020a001201011a0a0a066d656d6f72791001"
)
"""AllocatableResourcesResponse with one GPU."""
SANDBOXES: Final = bytes.fromhex(
    "0a3b0a02733012110a03742d301203752d311a036c61622001208080a8b1e39fe7cb172a080a036170701201"
    "7832060a01611201623a066e76696469610a190a027331120f0a036f6c641203752d301a036c616218012001"
)
"""ListPodSandboxResponse with a ready sandbox and one that is not ready."""
CONTAINERS: Final = bytes.fromhex(
    "0a2f0a026330120273301a090a05747261696e100222030a01692a01723001388080a8b1e39fe7cb1742060a"
    "016c1201760a120a026331120273301a060a04696e69743002"
)
"""ListContainersResponse with a running container and one that has ended."""
POD: Final = bytes.fromhex(
    "0a330a03742d301202742d1a036c61622a03752d3132023831380142060880e2cfaa065a080a036170701201"
    "7862060a01611201621abf010a0752756e6e696e672a0831302e302e302e313a060881e2cfaa0642300a0574"
    "7261696e120a12080a060882e2cfaa06200128013201693a0172420f636f6e7461696e6572643a2f2f633048"
    "014a0a47756172616e7465656452260a04696e6974120d1a0b1a09436f6d706c65746564420f636f6e746169"
    "6e6572643a2f2f6331521e0a077369646563617212021200420f636f6e7461696e6572643a2f2f63326a1c0a"
    "05646562756712021200420f636f6e7461696e6572643a2f2f6333"
)
"""Pod, with a container, an init container that has ended, a sidecar and an ephemeral container."""


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)


def test_allocations_and_allocatable_devices_are_decoded(tmp_path: Path) -> None:
    answers = {pod_resources.LIST: GIVEN, pod_resources.ALLOCATABLE: ALLOCATABLE}
    with GrpcServer(tmp_path / _KUBELET, answers.get):
        found = pod_resources.read(tmp_path)
    assert found.allocations == (
        Allocation("lab", "t-0", "train", "nvidia.com/gpu", ("GPU-0", "GPU-1")),
        Allocation("lab", "t-0", "train", "gpu.nvidia.com", ("n1/gpu-0",)),
    )
    assert found.allocatable == (("nvidia.com/gpu", ("GPU-0",)),)


def test_pods_of_a_runtime_are_decoded(tmp_path: Path) -> None:
    answers = {cri.SANDBOXES: SANDBOXES, cri.CONTAINERS: CONTAINERS}
    with GrpcServer(tmp_path / _RUNTIME, answers.get):
        found = PodReader(tmp_path).read()
    containers = (PodContainer("train", "c0"), PodContainer("init", "c1", running=False))
    assert found.pods == (Pod("u-1", "lab", "t-0", (("app", "x"),), containers),)


def test_pods_of_the_kubelet_are_decoded_with_their_sidecars(tmp_path: Path) -> None:
    with GrpcServer(tmp_path / _PODS, {pods_api.METHODS[0]: encoded([(1, POD)])}.get):
        found = PodReader(tmp_path).read()
    assert found.pods == (
        Pod(
            "u-1",
            "lab",
            "t-0",
            (("app", "x"),),
            (
                PodContainer("train", "c0"),
                PodContainer("init", "c1", running=False),
                PodContainer("sidecar", "c2"),
                PodContainer("debug", "c3"),
            ),
        ),
    )
