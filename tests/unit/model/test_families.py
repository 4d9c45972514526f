"""Tests that families derived from names of operations cover the table of traced functions."""

from __future__ import annotations

import pytest

from stalltop.model.evidence import HOST_GAP, HOST_LAYER
from stalltop.model.families import Family, OperationKind, kind_of
from stalltop.probes.operations import OPERATIONS


def test_every_operation_has_a_family_and_every_family_an_operation() -> None:
    assert {kind_of(info.layer, info.name).family for info in OPERATIONS} == {*Family} - {
        *(Family.HOST, Family.OTHER),
    }


@pytest.mark.parametrize(
    ("operation", "family", "direction", "asynchronous"),
    [
        ("cudaMalloc", Family.ALLOC, "", False),
        ("cudaMallocHost", Family.HOST_ALLOC, "", False),
        ("cuMemHostRegister", Family.HOST_ALLOC, "", False),
        ("cudaMallocFromPoolAsync", Family.POOL_ALLOC, "", True),
        ("cuMemFreeAsync", Family.POOL_FREE, "", True),
        ("cuMemFreeHost", Family.HOST_FREE, "", False),
        ("cuMemCreate", Family.MAP, "", False),
        ("cuMemRelease", Family.UNMAP, "", False),
        ("cuMemMapArrayAsync", Family.MAP, "", True),
        ("cuIpcOpenMemHandle", Family.IPC, "", False),
        ("cudaMemcpyAsync HtoD", Family.COPY, "HtoD", True),
        ("cudaMemcpyAsync default", Family.COPY, "", True),
        ("cuMemcpyDtoH", Family.COPY, "DtoH", False),
        ("cuMemcpyAtoHAsync", Family.COPY, "DtoH", True),
        ("cudaMemcpyToSymbol default", Family.COPY, "HtoD", False),
        ("cudaMemcpyFromArray DtoD", Family.COPY, "DtoD", False),
        ("cuMemcpyPeer", Family.COPY, "DtoD", False),
        ("cudaStreamWaitEvent", Family.WAIT, "", False),
        ("cudaStreamSynchronize", Family.SYNC, "", False),
        ("cudaGraphExecUpdate", Family.GRAPH_UPDATE, "", False),
        ("cuGraphUpload", Family.GRAPH_UPDATE, "", False),
        ("cuStreamBeginCaptureToGraph", Family.GRAPH_CAPTURE, "", False),
        ("ncclGroupEnd", Family.GROUP, "", False),
        ("ncclCommInitRank", Family.COMMUNICATOR, "", False),
        ("ncclReduceScatter", Family.COLLECTIVE, "", False),
        ("cuSomethingNew", Family.OTHER, "", False),
    ],
)
def test_the_name_gives_family_direction_and_asynchrony(
    operation: str, family: Family, direction: str, asynchronous: bool
) -> None:
    assert kind_of("driver", operation) == OperationKind(family, direction, asynchronous)


def test_host_gaps_belong_to_the_host() -> None:
    assert kind_of(HOST_LAYER, HOST_GAP).family is Family.HOST
