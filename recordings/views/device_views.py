"""Views of devices, and of the tenants that share devices: a part of ``catalogue.VIEWS``."""

from __future__ import annotations

from typing import Final

from stalltop.model.devices.device import DEVICE_FIGURES
from stalltop.recordings.views.view import IN_WINDOW, WHERE, WHO, WINDOW, WINDOW_SQL, SqlView

_DEVICE_SQL: Final = "nullif(n.device, '') AS device"
_UUID_SQL: Final = "substr(j.value, 1, instr(j.value || '::', '::') - 1)"
_MIG_LABEL_SQL: Final = "(json_extract(i.value, '$.gpu')) || ':' || (json_extract(i.value, '$.index'))"
_LISTED_WITH_GPU: Final = (
    f"ifnull((SELECT {_MIG_LABEL_SQL} FROM json_each(n.instances) i"
    " WHERE json_extract(i.value, '$.gpu_instance') = json_extract(j.value, '$.gpu_instance')"
    " AND json_extract(i.value, '$.compute_instance')"
    " = ifnull(json_extract(j.value, '$.compute_instance'), json_extract(i.value, '$.compute_instance'))"
    " LIMIT 1), g.number || '')",
    "CROSS JOIN json_each(n.processes) j",
    "WHERE NOT EXISTS (SELECT 1 FROM json_each(n.instances) i, json_each(i.value, '$.processes') p"
    " WHERE json_extract(p.value, '$.pid') = json_extract(j.value, '$.pid'))",
)
"""SQL (label of the device, FROM, WHERE) for the processes that the driver lists for a GPU. Processes that
the driver also lists for a MIG device of this GPU are left out."""
_LISTED_WITH_INSTANCE: Final = (
    _MIG_LABEL_SQL,
    "CROSS JOIN json_each(n.instances) i CROSS JOIN json_each(i.value, '$.processes') j",
    "",
)
_OF_DEVICES: Final = tuple(one for one in DEVICE_FIGURES if one.viewed)
"""The figures of ``Device`` that are columns of the view ``devices``."""
DEVICE_VIEWS: Final = (
    SqlView(
        "activity",
        "the time in which a container gave a GPU work or waited for it",
        (*WINDOW, WHO[0], *WHERE, ("active_ns", "time in which it was active, exact to about a millisecond")),
        f"SELECT {WINDOW_SQL}, t.cgroup_id, {_DEVICE_SQL}, n.active_ns FROM main.activity n"
        f' CROSS JOIN temp."~tenants" t ON t.tenant_id = n.tenant_id LEFT {IN_WINDOW}',
    ),
    SqlView(
        "overlaps",
        "the time in which two containers were active at once; each pair occurs twice, once from either side",
        (
            *WINDOW,
            WHO[0],
            ("other_cgroup_id", "the other container: a row of the table containers"),
            *WHERE,
            ("overlap_ns", "time in which both were active, exact to about a millisecond"),
        ),
        " UNION ALL ".join(
            f"SELECT {WINDOW_SQL}, {one}.cgroup_id, {other}.cgroup_id AS other_cgroup_id, {_DEVICE_SQL},"
            " n.ns AS overlap_ns FROM main.overlaps n"
            ' CROSS JOIN temp."~tenants" t ON t.tenant_id = n.tenant_id'
            f' CROSS JOIN temp."~tenants" o ON o.tenant_id = n.other_id LEFT {IN_WINDOW}'
            for one, other in ("to", "ot")
        ),
    ),
    SqlView(
        "allocations",
        "devices that a scheduler had given to containers at the end of each window, a row for each device",
        (
            *WINDOW,
            ("cgroup_id", "the container: a row of the table containers; NULL if none was seen"),
            ("namespace", "of the pod"),
            ("pod", "its name"),
            ("pod_uid", "UID of the pod; empty if it is not known which of the pods with this name it is"),
            ("pod_container", "name of the container within the pod"),
            ("resource", "such as nvidia.com/gpu"),
            ("uuid", "of the GPU or MIG device"),
            ("replica", "number of the replica if the device is given several times, else NULL"),
            ("device", "as in other tables, 0 or 0:3; NULL if no such device was seen"),
        ),
        f"SELECT {WINDOW_SQL}, CASE WHEN m.id <> '' THEN t.cgroup_id END AS cgroup_id, a.namespace, a.pod,"
        f" a.pod_uid, a.container AS pod_container, a.resource, {_UUID_SQL} AS uuid,"
        " CASE WHEN instr(j.value, '::') THEN substr(j.value, instr(j.value, '::') + 2) END AS replica,"
        " (SELECT g.number || '' FROM main.devices d CROSS JOIN main.gpus g ON g.gpu_id = d.gpu_id"
        f" WHERE d.window_id = n.window_id AND g.uuid = {_UUID_SQL}"
        f" UNION ALL SELECT {_MIG_LABEL_SQL} FROM main.devices d, json_each(d.instances) i"
        f" WHERE d.window_id = n.window_id AND json_extract(i.value, '$.uuid') = {_UUID_SQL}"
        " LIMIT 1) AS device"
        " FROM main.allocations n CROSS JOIN main.allotments a ON a.allotment_id = n.allotment_id"
        " CROSS JOIN main.tenants m ON m.tenant_id = a.tenant_id"
        ' CROSS JOIN temp."~tenants" t ON t.tenant_id = a.tenant_id'
        f" CROSS JOIN json_each(a.devices) j LEFT {IN_WINDOW}",
    ),
    SqlView(
        "device_processes",
        "the processes that had a context on a GPU at the end of each window, as the driver lists them",
        (
            *WINDOW,
            WHO[0],
            ("pid", "process id on its host"),
            ("process", "its name; empty if not known"),
            ("device", "as in other tables: the MIG device of the process, else the GPU"),
            ("kind", "C compute, G graphics, C+G both, M+C MPS client"),
            ("memory_bytes", "device memory that it holds; NULL if the driver does not report it"),
            ("resident_ns", "time in which it had the GPU; NULL if the log of context switches was not read"),
        ),
        " UNION ALL ".join(
            f"SELECT {WINDOW_SQL}, c.cgroup_id, json_extract(j.value, '$.pid') AS pid,"
            f" json_extract(j.value, '$.process') AS process, {label} AS device,"
            " json_extract(j.value, '$.kind') AS kind,"
            " json_extract(j.value, '$.memory_bytes') AS memory_bytes,"
            " json_extract(j.value, '$.resident_ns') AS resident_ns"
            " FROM main.devices n CROSS JOIN main.gpus g ON g.gpu_id = n.gpu_id"
            f" {listed} {IN_WINDOW} LEFT JOIN main.hosts h ON h.host_id = w.host_id"
            " LEFT JOIN temp.containers c ON c.tenant = json_extract(j.value, '$.tenant') AND c.host = h.name"
            f" {where}"
            for label, listed, where in (_LISTED_WITH_GPU, _LISTED_WITH_INSTANCE)
        ),
    ),
    SqlView(
        "mig_devices",
        "the MIG devices of each GPU at the end of each window",
        (
            *WINDOW,
            ("device", "as in other tables, such as 0:3"),
            ("uuid", "its UUID, from the driver"),
            ("profile", "such as 1g.10gb"),
            ("gpu_instance", ""),
            ("compute_instance", ""),
            ("memory_used_bytes", ""),
            ("memory_total_bytes", ""),
        ),
        f"SELECT {WINDOW_SQL}, {_MIG_LABEL_SQL} AS device, "
        + ", ".join(
            f"json_extract(i.value, '$.{name}') AS {name}"
            for name in (
                *("uuid", "profile", "gpu_instance", "compute_instance"),
                *("memory_used_bytes", "memory_total_bytes"),
            )
        )
        + f" FROM main.devices n CROSS JOIN json_each(n.instances) i LEFT {IN_WINDOW}",
    ),
    SqlView(
        "devices",
        "figures of each GPU at the end of each window",
        (
            *WINDOW,
            ("gpu", "its index on the host"),
            ("device", "the index as text, as in other tables"),
            ("uuid", "its UUID, from the driver"),
            ("model", "its name"),
            *((one.name, one.about_in_window) for one in _OF_DEVICES),
            ("compute_mode", "compute mode: who may use it"),
            ("throttle_reasons", "JSON list: what throttles the clocks"),
            ("lost", "1: it no longer answers"),
        ),
        f"SELECT {WINDOW_SQL}, g.number AS gpu, g.number || '' AS device, g.uuid, g.name AS model,"
        + ", ".join(f" {'g' if one.of_board else 'n'}.{one.name}" for one in _OF_DEVICES)
        + ", g.compute_mode, n.throttle_reasons, n.lost"
        + f" FROM main.devices n LEFT JOIN main.gpus g ON g.gpu_id = n.gpu_id LEFT {IN_WINDOW}",
    ),
)
