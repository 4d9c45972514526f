"""What series and problems are about, by the semantic conventions of OpenTelemetry:
https://opentelemetry.io/docs/specs/semconv/resource/ (host, container, k8s) and
https://opentelemetry.io/docs/specs/semconv/hardware/gpu/.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from stalltop.model.devices.device import Device
from stalltop.model.tenant import Tenant

Attributes = Mapping[str, str | int | float]


def host_resource(host: str, version: str, given: Mapping[str, str]) -> dict[str, str]:
    """Returns the attributes of stalltop and its host. ``given``: further ones, which take precedence."""
    return {
        "service.name": "stalltop",
        "service.instance.id": host,
        "service.version": version,
        "host.name": host,
        "os.type": "linux",
        **given,
    }


def labelled_resource(labels: Mapping[str, str]) -> dict[str, str]:
    """Returns the attributes of the tenant with these labels (``TenantLabels``), without the id of its
    container: a container that restarts continues the series of the one before."""
    container = "k8s.container.name" if "pod" in labels else "container.name"
    return _present(
        {
            "k8s.namespace.name": labels.get("namespace", ""),
            "k8s.pod.name": labels.get("pod", ""),
            container: labels.get("container", ""),
        }
    )


def tenant_resource(tenant: Tenant) -> dict[str, str]:
    """Returns the attributes of this very tenant."""
    in_pod = bool(tenant.pod_uid or tenant.pod)
    name = tenant.container or (tenant.name if tenant.kind == "container" else "")
    return _present(
        {
            "k8s.namespace.name": tenant.namespace,
            "k8s.pod.name": tenant.pod,
            "k8s.pod.uid": tenant.pod_uid,
            "k8s.container.name": name if in_pod else "",
            "container.name": "" if in_pod else name,
            "container.id": tenant.container_id,
            "container.runtime.name": tenant.runtime if tenant.container_id else "",
        }
    )


def gpu_resource(device: Device, driver: str) -> dict[str, str]:
    """Returns the attributes of a GPU."""
    return _present(
        {
            "hw.type": "gpu",
            "hw.id": device.uuid,
            "hw.name": f"GPU {device.index}",
            "hw.vendor": "NVIDIA",
            "hw.model": device.name,
            "hw.driver_version": driver,
        }
    )


def _present(attributes: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in attributes.items() if value}


def key_values(attributes: Attributes) -> Iterable[KeyValue]:
    """Returns ``attributes`` as OTLP has them."""
    return [KeyValue(key=name, value=_any(value)) for name, value in attributes.items()]


def _any(value: str | float) -> AnyValue:
    if isinstance(value, str):
        return AnyValue(string_value=value)
    return AnyValue(int_value=value) if isinstance(value, int) else AnyValue(double_value=value)
