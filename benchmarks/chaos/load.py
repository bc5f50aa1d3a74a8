"""What users and administrators do to the cluster, at random: workloads of all kinds, edits of queues and nodes.

Each action is one request or a few; a refusal (a webhook that is down, a conflict, something that is gone) is what
users see in such times too, and is counted. All workloads of the load run on nodes with the label `pool: storm`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from bosket.api.apps import Deployment
from bosket.api.batch import Job
from bosket.api.core import Node, Pod
from bosket.api.grove import PodCliqueSet
from bosket.api.kai import Queue
from bosket.api.node_k8s import RuntimeClass
from bosket.api.object import KubeObject, ObjectMeta
from bosket.api.policy import PodDisruptionBudget
from bosket.kube.client import Client
from bosket.kube.errors import KubeError, NotFound
from tests.e2e.manifest import Manifest, deployment, job, sharing_pod

NAMESPACE: Final = "storm"
POOL_LABEL: Final = "pool"
NODES: Final = 10
GPUS_PER_NODE: Final = 8
QUEUES: Final = ("storm-a", "storm-b", "storm-c")
#: Workloads that exist at a time; beyond it the oldest is deleted.
MOST: Final = 45
_KINDS: Final[dict[str, type[KubeObject]]] = {
    "Job": Job,
    "Pod": Pod,
    "Deployment": Deployment,
    "PodDisruptionBudget": PodDisruptionBudget,
    "PodCliqueSet": PodCliqueSet,
}


def node(name: str, pool: str) -> Manifest:
    resources = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(GPUS_PER_NODE)}
    labels = {"kubernetes.io/hostname": name, POOL_LABEL: pool, "nvidia.com/gpu.memory": "81559"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"bosket.dev/simulated": "true"}},
        "status": {"capacity": resources, "allocatable": resources},
    }


def queue(name: str, parent: str, quota: float, limit: float = -1) -> Manifest:
    free = {"quota": -1, "overQuotaWeight": 1, "limit": -1}
    gpu = {"quota": quota, "overQuotaWeight": 1, "limit": limit}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"parentQueue": parent, "resources": {"gpu": gpu, "cpu": free, "memory": free}},
    }


def clique_set(name: str, queue_name: str, random: Random) -> Manifest:
    """A router, and a model of a leader and some workers that start together."""

    def clique(role: str, replicas: int, minimum: int, gpus: int) -> Manifest:
        amounts: dict[str, str] = {"cpu": "1", "memory": "64Mi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
        container = {
            "name": "main",
            "image": "example.com/work:1",
            "resources": {"requests": amounts, "limits": amounts},
        }
        pod_spec = {"schedulerName": "kai-scheduler", "nodeSelector": {POOL_LABEL: "storm"}, "containers": [container]}
        spec = {"roleName": role, "replicas": replicas, "minAvailable": minimum, "podSpec": pod_spec}
        return {"name": role, "labels": {"kai.scheduler/queue": queue_name}, "spec": spec}

    cliques = [clique("router", 2, 1, 0), clique("leader", 1, 1, 1), clique("worker", random.randint(1, 3), 1, 1)]
    groups = [
        {"name": "model", "cliqueNames": ["leader", "worker"], "replicas": random.randint(1, 2), "minAvailable": 1}
    ]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": 1, "template": {"cliques": cliques, "podCliqueScalingGroups": groups}},
    }


@dataclass
class Load:
    """Makes and unmakes things; `done` and `refused` count by action."""

    client: Client
    random: Random
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)  #: why each kind of action was last refused
    live: list[tuple[str, str]] = field(default_factory=list)  #: kind and name of what exists, the oldest first
    _number: int = 0
    _absent_nodes: list[str] = field(default_factory=list)

    async def prepare(self) -> None:
        await self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        # Admission has pods with a part of a GPU run in it.
        await self.client.create(RuntimeClass(metadata=ObjectMeta(name="nvidia"), handler="nvidia"))
        await self.client.create(queue("storm", "", -1))
        for name in QUEUES:
            await self.client.create(queue(name, "storm", 24))
        for number in range(NODES):
            await self.client.create(node(f"storm-{number}", "storm"))

    async def act(self) -> None:
        """One thing that somebody does."""
        actions = self._actions()
        choice = self.random.choices(list(actions), [weight for weight, _ in actions.values()])[0]
        try:
            await actions[choice][1]()
        except (KubeError, TimeoutError, OSError) as error:
            self.refused[choice] += 1
            self.reasons[choice] = str(error)
        else:
            self.done[choice] += 1

    def _actions(self) -> dict[str, tuple[int, Callable[[], Awaitable[object]]]]:
        return {
            "gang": (6, self._gang),
            "elastic job": (4, self._elastic),
            "shared GPU": (6, self._shared),
            "guarded deployment": (3, self._guarded),
            "PodCliqueSet": (2, self._set),
            "deletion": (5, self._delete_any),
            "killed pod": (2, self._delete_pod),
            "queue edit": (3, self._edit_queue),
            "node cordoned or uncordoned": (2, self._cordon),
            "node removed or added": (1, self._lose_node),
        }

    # ── workloads ──

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind}-{self._number}"

    async def _create(self, manifest: Manifest) -> None:
        await self.client.create(manifest, NAMESPACE)
        self.live.append((manifest["kind"], manifest["metadata"]["name"]))
        while len(self.live) > MOST:
            await self._delete(*self.live.pop(0))

    def _common(self) -> dict[str, Any]:
        return {"queue": self.random.choice(QUEUES), "nodeSelector": {POOL_LABEL: "storm"}}

    async def _gang(self) -> None:
        seconds, priority = (
            self.random.randint(10, 90),
            self.random.choice([None, "train", "build-preemptible", "build"]),
        )
        pods, gpus = self.random.randint(1, 8), self.random.choice([1, 1, 2, 4])
        name = self._name("gang")
        await self._create(
            job(name, pods=pods, gpus=gpus, priority=priority, run_duration=f"{seconds}s", **self._common())
        )

    async def _elastic(self) -> None:
        name, pods = self._name("elastic"), self.random.randint(3, 8)
        manifest = job(
            name, pods=pods, minimum=2, gpus=1, run_duration=f"{self.random.randint(20, 120)}s", **self._common()
        )
        await self._create(manifest)

    async def _shared(self) -> None:
        manifest = sharing_pod(
            self._name("shared"), fraction=self.random.choice(["0.25", "0.5", "0.3", "0.75"]), **self._common()
        )
        manifest["metadata"]["annotations"]["bosket.dev/run-duration"] = f"{self.random.randint(5, 90)}s"
        manifest["spec"]["restartPolicy"] = "Never"
        await self._create(manifest)

    async def _guarded(self) -> None:
        name, replicas = self._name("guarded"), self.random.randint(2, 4)
        manifest = deployment(name, replicas=replicas, gpus=1, **self._common())
        manifest["metadata"]["labels"]["priorityClassName"] = "train"  # by default it couldn't be preempted at all
        await self._create(manifest)
        await self._create(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": name},
                "spec": {"minAvailable": replicas - 1, "selector": {"matchLabels": {"workload": name}}},
            }
        )

    async def _set(self) -> None:
        name = f"set{self._number}"
        self._number += 1
        await self._create(clique_set(name, self.random.choice(QUEUES), self.random))

    # ── what goes ──

    async def _delete_any(self) -> None:
        if self.live:
            await self._delete(*self.live.pop(self.random.randrange(len(self.live))))

    async def _delete(self, kind: str, name: str) -> None:
        """A workload, and before a guarded one its budget: from then on nothing guards it."""
        if kind == "Deployment" and ("PodDisruptionBudget", name) in self.live:
            self.live.remove(("PodDisruptionBudget", name))
            await self._remove("PodDisruptionBudget", name)
        await self._remove(kind, name)

    async def _remove(self, kind: str, name: str) -> None:
        try:
            await self.client.delete(_KINDS[kind], name, NAMESPACE, propagation="Background")
        except NotFound:
            return
        except (KubeError, OSError):
            self.live.append((kind, name))  # another time
            raise

    async def _delete_pod(self) -> None:
        pods = (await self.client.list(Pod, NAMESPACE)).items
        names = [each.metadata.name for each in pods if "workload" not in each.metadata.labels]
        if names:
            await self._gone(Pod, self.random.choice(names), NAMESPACE)

    async def _gone(self, kind: type[KubeObject], name: str, namespace: str = "") -> None:
        try:
            await self.client.delete(kind, name, namespace)
        except NotFound:
            return

    # ── administrators ──

    async def _edit_queue(self) -> None:
        name = self.random.choice(QUEUES)
        limit = self.random.choice([-1, -1, 32, 48])
        quota = self.random.choice([8, 16, 24, 32])
        gpu = {"quota": quota, "limit": limit, "overQuotaWeight": self.random.choice([1, 2, 3])}
        await self.client.patch(Queue, name, {"spec": {"resources": {"gpu": gpu}}})

    async def _cordon(self) -> None:
        nodes = [
            each for each in (await self.client.list(Node)).items if each.metadata.labels.get(POOL_LABEL) == "storm"
        ]
        cordoned = [each for each in nodes if each.spec.unschedulable]
        chosen = self.random.choice(cordoned if len(cordoned) > 1 else nodes)
        await self.client.patch(Node, chosen.metadata.name, {"spec": {"unschedulable": not chosen.spec.unschedulable}})

    async def _lose_node(self) -> None:
        if self._absent_nodes:
            await self.client.create(node(self._absent_nodes[-1], "storm"))
            self._absent_nodes.pop()
            return
        name = f"storm-{self.random.randrange(NODES)}"
        await self._gone(Node, name)
        self._absent_nodes.append(name)

    async def make_room(self) -> None:
        """No limits, all nodes, and more of them: what still waits after that waits for no reason."""
        for name in QUEUES:
            gpu = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
            await self.client.patch(Queue, name, {"spec": {"resources": {"gpu": gpu}}})
        for each in (await self.client.list(Node)).items:
            if each.spec.unschedulable:
                await self.client.patch(Node, each.metadata.name, {"spec": {"unschedulable": False}})
        there = {each.metadata.name for each in (await self.client.list(Node)).items}
        for number in range(6 * NODES):
            if f"storm-{number}" not in there:
                await self.client.create(node(f"storm-{number}", "storm"))

    async def clear(self) -> None:
        """Delete everything that the load made, also what was made although the answer said otherwise."""
        for name, kind in reversed(_KINDS.items()):
            self.live += [(name, each.metadata.name) for each in (await self.client.list(kind, NAMESPACE)).items]
        for name, each in dict.fromkeys(self.live):
            await self._remove(name, each)
        self.live.clear()
