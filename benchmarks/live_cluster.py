"""A large cluster as an API server tells of it: lists in pages and watch events, as bytes, made when asked for.

Pods look as they do on a real cluster: made by a Job, with the token volume of their service account, the conditions
and container statuses of a kubelet, and the records of server-side apply. Nothing is kept here: what the scheduler's
cache holds of the cluster is all that the process holds of it.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from bosket.kube.transport import Request, Response

QUEUES, NAMESPACES, CPUS = 10, 20, 12
PAGE = 500  #: objects in one answer to a list
NO_OBJECTS = b'{"kind":"List","metadata":{"resourceVersion":"1"},"items":[]}'
_CREATED = "2026-01-01T08:00:00Z"
_IMAGE = "registry.example.com/team/trainer:2026.1"
_INDEX = "batch.kubernetes.io/job-completion-index"

Document = dict[str, Any]


@dataclass(frozen=True)
class Shape:
    """How large the cluster is. Pods are members of gangs, one gang on each node as far as nodes go."""

    nodes: int
    pods: int
    gang: int = 8

    @property
    def gangs(self) -> int:
        return (self.pods + self.gang - 1) // self.gang


def namespace_of(gang: int) -> str:
    return f"team-{gang % NAMESPACES:02}"


def node_name(number: int) -> str:
    return f"node-{number:05}"


def _fields(value: object) -> Document:
    """The record of server-side apply for these fields."""
    if not isinstance(value, dict):
        return {}
    return {".": {}} | {f"f:{name}": _fields(below) for name, below in value.items()}


def _managed(manager: str, *, subresource: str = "", **fields: Document) -> Document:
    entry = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": _CREATED, "fieldsType": "FieldsV1"}
    return {**entry, "fieldsV1": _fields(fields), "subresource": subresource}


def _metadata(name: str, namespace: str = "", **more: object) -> Document:
    return {"name": name, "namespace": namespace, "resourceVersion": "1", "creationTimestamp": _CREATED, **more}


def pod(gang: int, member: int, *, node: str = "", phase: str = "Running") -> Document:
    """A pod of a gang; without a node it waits."""
    number = gang * 1_000 + member
    suffix = f"{number * 7919 % 1048573:05x}"
    job, token, job_uid = f"train-{gang:05}", f"kube-api-access-{suffix}", f"5d0c6a1e-7f3b-4b7e-9c55-{gang:012x}"
    labels = {
        "app.kubernetes.io/name": "train",
        "batch.kubernetes.io/controller-uid": job_uid,
        "batch.kubernetes.io/job-name": job,
        _INDEX: str(member),
        "kai.scheduler/queue": f"queue-{gang % QUEUES}",
    }
    spec = _spec(gang, job, member, token)
    own = {"labels": labels, "annotations": {_INDEX: ""}, "generateName": "", "ownerReferences": ""}
    managers = [
        _managed("kube-controller-manager", metadata=own, spec={**spec, "containers": {"main": spec["containers"][0]}}),
        _managed("pod-grouper", metadata={"annotations": {"pod-group-name": ""}}),
    ]
    status: Document = {"phase": "Pending", "qosClass": "Burstable"}
    if node:
        spec["nodeName"] = node
        status = _status(number, phase, token)
        managers.append(_managed("kubelet", subresource="status", status=status))
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": job_uid}
    metadata = _metadata(
        f"{job}-{member}-{suffix}",
        namespace_of(gang),
        generateName=f"{job}-{member}-",
        uid=f"9f2d7c58-1c0e-4f0a-8a3d-{number:012x}",
        generation=1,
        labels=labels,
        annotations={"pod-group-name": f"pg-{job}", _INDEX: str(member)},
        ownerReferences=[{**owner, "controller": True, "blockOwnerDeletion": True}],
        managedFields=managers,
    )
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _spec(gang: int, job: str, member: int, token: str) -> Document:
    from_pod = {"apiVersion": "v1", "fieldPath": f"metadata.labels['{_INDEX}']"}
    container = {
        "name": "main",
        "image": _IMAGE,
        "command": ["python", "-m", "trainer"],
        "args": ["--epochs", "90", "--data", "/data"],
        "env": [
            {"name": "RANK", "valueFrom": {"fieldRef": from_pod}},
            {"name": "WORLD_SIZE", "value": "8"},
            {"name": "NCCL_DEBUG", "value": "WARN"},
        ],
        "resources": {
            "limits": {"nvidia.com/gpu": "1", "memory": "16Gi"},
            "requests": {"cpu": str(1 + gang % CPUS), "memory": "16Gi", "nvidia.com/gpu": "1"},
        },
        "volumeMounts": _mounts(token),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    gone = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    return {
        "volumes": [
            {"name": "data", "emptyDir": {}},
            {"name": token, "projected": {"sources": sources, "defaultMode": 420}},
        ],
        "containers": [container],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "hostname": f"{job}-{member}",
        "schedulerName": "kai-scheduler",
        "tolerations": [
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/not-ready", **gone},
            {"key": "node.kubernetes.io/unreachable", **gone},
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def _mounts(token: str) -> list[Document]:
    secrets = "/var/run/secrets/kubernetes.io/serviceaccount"
    return [
        {"name": "data", "mountPath": "/data"},
        {"name": token, "readOnly": True, "mountPath": secrets},
    ]


def _status(number: int, phase: str, token: str) -> Document:
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    condition = {"lastProbeTime": None, "lastTransitionTime": _CREATED, "status": "True"}
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    container = {
        "name": "main",
        "state": {"running": {"startedAt": _CREATED}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": _IMAGE,
        "imageID": f"registry.example.com/team/trainer@sha256:{'0123456789abcdef' * 4}",
        "containerID": f"containerd://{number:064x}",
        "started": True,
        "volumeMounts": [{**each, "recursiveReadOnly": "Disabled"} for each in _mounts(token)],
    }
    return {
        "phase": phase,
        "conditions": [{**condition, "type": kind} for kind in kinds],
        "hostIP": "10.0.0.7",
        "hostIPs": [{"ip": "10.0.0.7"}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": _CREATED,
        "containerStatuses": [container],
        "qosClass": "Burstable",
    }


def pod_group(gang: int, members: int) -> Document:
    job = f"train-{gang:05}"
    spec = {
        "minMember": members,
        "queue": f"queue-{gang % QUEUES}",
        "priorityClassName": "train",
        "preemptibility": "preemptible",
    }
    metadata = _metadata(f"pg-{job}", namespace_of(gang), uid=f"3c1b9d52-0000-4000-8000-{gang:012x}", generation=1)
    metadata["managedFields"] = [_managed("pod-grouper", spec=spec)]
    metadata["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"job-{gang}"}]
    return {"metadata": metadata, "spec": spec, "status": {}}


def node(number: int) -> Document:
    name = node_name(number)
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "gpu-8",
        "topology.kubernetes.io/zone": f"zone-{number // 128 % 8}",
        "example.com/rack": f"rack-{number // 16}",
        "nvidia.com/gpu.memory": "81559",
    }
    amounts = {"cpu": "128", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110", "ephemeral-storage": "2Ti"}
    condition = {"lastHeartbeatTime": _CREATED, "lastTransitionTime": _CREATED, "reason": "Kubelet", "message": "ok"}
    pressures = ("MemoryPressure", "DiskPressure", "PIDPressure")
    conditions = [{**condition, "type": kind, "status": "False"} for kind in pressures]
    conditions.append({**condition, "type": "Ready", "status": "True"})
    status = {"capacity": amounts, "allocatable": amounts, "conditions": conditions}
    status["images"] = [{"names": [f"registry.example.com/{n}:1"], "sizeBytes": 1 << 30} for n in range(20)]
    metadata = _metadata(name, uid=f"77777777-0000-4000-8000-{number:012x}", labels=labels)
    metadata["managedFields"] = [_managed("kubelet", subresource="status", status=status)]
    return {"metadata": metadata, "spec": {"podCIDR": "10.1.0.0/24"}, "status": status}


def queue(name: str, parent: str = "") -> Document:
    share = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    resources = {"gpu": share, "cpu": share, "memory": share}
    spec = {"resources": resources, **({"parentQueue": parent} if parent else {})}
    return {"metadata": _metadata(name), "spec": spec}


class WatchStream:
    """A watch that stays open; what is put into it arrives as chunks, as from a socket."""

    status = 200

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self._chunks: list[bytes] = []
        self._came = asyncio.Event()

    def put(self, chunks: Iterable[bytes]) -> None:
        self._chunks += chunks
        self._came.set()

    @property
    def is_read(self) -> bool:
        """Whether everything was taken."""
        return not self._chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            while self._chunks:  # like a socket with a full buffer: the reader isn't made to wait
                yield self._chunks.pop(0)
            self._came.clear()
            await self._came.wait()

    async def read_all(self) -> bytes:
        return b""

    async def aclose(self) -> None:
        return None


def _makers(shape: Shape) -> dict[str, tuple[int, Callable[[int], Document]]]:
    """By path: how many objects there are, and how each is made."""
    kai = "/apis/scheduling.run.ai"
    return {
        "/api/v1/pods": (shape.pods, lambda n: _running(shape, n)),
        "/api/v1/nodes": (shape.nodes, node),
        f"{kai}/v2alpha2/podgroups": (shape.gangs, lambda n: pod_group(n, shape.gang)),
        f"{kai}/v2/queues": (QUEUES + 2, _queue),
        "/api/v1/configmaps": (NAMESPACES, lambda n: {"metadata": _metadata("kube-root-ca.crt", namespace_of(n))}),
        "/api/v1/namespaces": (NAMESPACES, lambda n: {"metadata": _metadata(namespace_of(n))}),
    }


def _running(shape: Shape, number: int) -> Document:
    gang, member = divmod(number, shape.gang)
    return pod(gang, member, node=node_name(gang % shape.nodes))


def write_pages(shape: Shape, folder: Path) -> None:
    """Writes the cluster's lists into a folder, page by page."""
    for path, (count, make) in _makers(shape).items():
        for first in range(0, count, PAGE):
            last = min(count, first + PAGE)
            meta = {"resourceVersion": "1", "continue": str(last) if last < count else ""}
            items = [make(number) for number in range(first, last)]
            body = msgspec.json.encode({"kind": "List", "metadata": meta, "items": items})
            _page(folder, path, first).write_bytes(body)


def _page(folder: Path, path: str, first: int) -> Path:
    return folder / f"{path.replace('/', '_')}-{first}.json"


class FakeServer:
    """Answers lists and watches of one cluster, and takes all writes. A `Transport`.

    Pages are made by another process, and read from files: what making them takes is no part of what is measured.
    """

    def __init__(self, shape: Shape) -> None:
        self.writes = 0
        self.watches: dict[str, WatchStream] = {}
        self._pages = TemporaryDirectory()
        numbers = map(str, (shape.nodes, shape.pods, shape.gang))
        subprocess.run([sys.executable, "-m", "benchmarks.live_cluster", self._pages.name, *numbers], check=True)

    async def request(self, request: Request) -> Response:
        await asyncio.sleep(0)  # as every answer of a real one is waited for
        if request.method == "GET":
            return self._list(request)
        self.writes += 1
        return Response(200, {}, request.body or b"{}")

    def _list(self, request: Request) -> Response:
        query = dict(request.query)
        if query.get("limit") != str(PAGE):
            return Response(404, {}, b'{"kind":"Status","status":"Failure","code":404,"reason":"NotFound"}')
        page = _page(Path(self._pages.name), request.path, int(query.get("continue") or 0))
        return Response(200, {}, page.read_bytes() if page.exists() else NO_OBJECTS)

    async def stream(self, request: Request) -> WatchStream:
        return self.watches.setdefault(request.path, WatchStream())

    async def aclose(self) -> None:
        self._pages.cleanup()


def _queue(number: int) -> Document:
    if number < 2:
        return queue(f"department-{number}")
    return queue(f"queue-{number - 2}", f"department-{number % 2}")


def event(kind: str, document: Document, version: int) -> bytes:
    """A line of a watch."""
    document["metadata"]["resourceVersion"] = str(version)
    return msgspec.json.encode({"type": kind, "object": document}) + b"\n"


def chunks(lines: Iterable[bytes], per_chunk: int) -> list[bytes]:
    """The lines as they arrive from a busy connection: several at once."""
    ahead, joined = iter(lines), []
    while part := list(islice(ahead, per_chunk)):
        joined.append(b"".join(part))
    return joined


if __name__ == "__main__":
    write_pages(Shape(*map(int, sys.argv[2:])), Path(sys.argv[1]))
