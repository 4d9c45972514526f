"""Reads the kubelet's list of its pods from its gRPC service Pods, which has a socket of its own since
Kubernetes 1.36.

https://kubernetes.io/docs/reference/node/kubelet-pods-api/. The answer has whole Pod objects. The numbers of
fields below are those of k8s.io/api/core/v1 and k8s.io/apimachinery/pkg/apis/meta/v1 (generated.proto).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from stalltop.model.text.clean import clean
from stalltop.probes.kubelet.call import UNIMPLEMENTED, KubeletCallError, call
from stalltop.probes.kubelet.pod import MOST_BYTES, MOST_PODS, Pod, PodContainer, kept_labels, object_name
from stalltop.probes.kubelet.protobuf import messages, text
from stalltop.probes.tenants.unix_socket import why_no_socket

SOCKET: Final = "pods-api/pods-api.sock"
"""Path in the kubelet's folder."""
METHODS: Final = ("/v1beta1.Pods/ListPods", "/v1alpha1.Pods/ListPods", "/v1.Pods/ListPods")
"""Name of the method in each version that the service may have. All versions have the fields that are
read."""
SECONDS: Final = 2.0
_STATUSES: Final = (8, 10, 13)
"""Fields with the statuses of containers, of init containers (which include sidecars) and of ephemeral
containers."""
_OVER: Final = ("Succeeded", "Failed")
"""Phases in which no container will run again."""


class PodsApi:
    """Reads the kubelet's list of pods repeatedly. Used from one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._method = METHODS[0]
        self._known: dict[bytes, Pod | None] = {}
        """Pods of the last answer, by hash of their encoded form; None for a pod that has ended. Only pods
        that have changed since are parsed again."""

    def read(self) -> tuple[Pod, ...]:
        """Returns the pods that have not ended. Raises KubeletCallError, or ValueError if the answer cannot
        be parsed."""
        if why := why_no_socket(self._path):
            raise KubeletCallError(why)
        before, self._known = self._known, {}
        for pod in messages(self._asked(), 1)[:MOST_PODS]:
            key = hashlib.blake2b(pod, digest_size=16).digest()
            self._known[key] = before[key] if key in before else _pod(pod)
        return tuple(pod for pod in self._known.values() if pod is not None)

    def _asked(self) -> bytes:
        for method in (self._method, *METHODS):
            try:
                answer = call(self._path, method, seconds=SECONDS, most_bytes=MOST_BYTES)
            except KubeletCallError as failed:
                if failed.status != UNIMPLEMENTED:
                    raise
            else:
                self._method = method
                return answer
        raise KubeletCallError("it offers no known version of the service", UNIMPLEMENTED)


def _pod(message: bytes) -> Pod | None:
    meta = b"".join(messages(message, 1))
    status = b"".join(messages(message, 3))
    uid = clean(text(meta, 5))
    if not uid or text(status, 1) in _OVER:
        return None
    return Pod(
        uid=uid,
        namespace=object_name(text(meta, 3)),
        name=object_name(text(meta, 1)),
        labels=kept_labels(meta, 11),
        containers=tuple(_container(one) for kind in _STATUSES for one in messages(status, kind)),
    )


def _container(status: bytes) -> PodContainer:
    identity = text(status, 8).rpartition("://")[2]  # The id looks like containerd://4f1c…
    state = b"".join(messages(status, 2))
    return PodContainer(object_name(text(status, 1)), clean(identity), running=bool(messages(state, 2)))
