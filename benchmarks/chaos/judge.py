"""What must hold on a cluster at every moment, judged from watch events alone.

The judge shares no code with Bosket: it reads objects as JSON and counts for itself. `see` takes one watch event,
`tick` looks at what depends on time, `at_rest` at what must hold once nothing has happened for a while. Every breach is
a sentence in `broken`.

Settings that administrators change (limits, quotas, capacities) take effect on decisions that are made afterwards; a
pod that is bound just after such a change was decided on before. So a binding is judged by the most generous value of
the last `LATE_SECONDS`.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

Json = dict[str, Any]

#: How long after a setting changed decisions by the old one may still be carried out.
LATE_SECONDS: Final = 90.0
#: How long a change of a budget or a queue may be seen after what followed from it: each kind has a watch of its own,
#: and one of them may have to be made anew. Versions tell what came first.
UNSURE_SECONDS: Final = 150.0
#: How long a gang may be bound in part: binds are retried, and what stays in part is evicted after a grace of 60 s.
PARTIAL_SECONDS: Final = 300.0
GPU: Final = "nvidia.com/gpu"
QUEUE_LABEL: Final = "kai.scheduler/queue"
POD_GROUP: Final = "pod-group-name"
GPU_GROUP: Final = "runai-gpu-group"
FRACTION: Final = "gpu-fraction"
RESERVATION_NAMESPACE: Final = "kai-resource-reservation"
#: Priority classes from which on work can't be preempted.
FIRM_CLASSES: Final = frozenset({"build", "inference"})
_UNITS: Final[Mapping[str, int]] = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15} | {
    f"{letter}i": 1024 ** (power + 1) for power, letter in enumerate("KMGTP")
}


def amount(text: object) -> Decimal:
    """A Kubernetes quantity as a number."""
    written = str(text)
    if written.endswith("m"):
        return Decimal(written[:-1]) / 1000
    digits = written.rstrip("KMGTPik")
    return Decimal(digits) * _UNITS[written[len(digits) :]]


def key(doc: Json) -> str:
    meta = doc["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def version(doc: Json) -> int:
    """When an object was written, or went: versions of all kinds come from one count. 0 where nobody saw it."""
    return int(doc["metadata"].get("resourceVersion") or 0)


def is_active(pod: Json) -> bool:
    """Whether a pod holds what it asked for on its node."""
    bound = bool(pod["spec"].get("nodeName"))
    return bound and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def is_healthy(pod: Json) -> bool:
    """Whether a disruption budget counts a pod."""
    ready = any(
        each["type"] == "Ready" and each["status"] == "True" for each in pod.get("status", {}).get("conditions") or ()
    )
    return ready and not pod["metadata"].get("deletionTimestamp")


def requests(pod: Json) -> dict[str, Decimal]:
    total: dict[str, Decimal] = defaultdict(Decimal)
    for container in pod["spec"]["containers"]:
        for name, value in (container.get("resources", {}).get("requests") or {}).items():
            total[name] += amount(value)
    total["pods"] += 1
    return total


def annotation(doc: Json, name: str) -> str:
    return str((doc["metadata"].get("annotations") or {}).get(name, ""))


def label(doc: Json, name: str) -> str:
    return str((doc["metadata"].get("labels") or {}).get(name, ""))


def told(pod: Json) -> str:
    """What a pod's conditions say of why it waits."""
    conditions = pod.get("status", {}).get("conditions") or ()
    return " ".join(str(each.get("message", "")) for each in conditions if each["status"] == "False") or "no condition"


def gpus(pod: Json) -> Decimal:
    """GPUs that a pod's queue is charged for."""
    return requests(pod).get(GPU, Decimal()) + Decimal(annotation(pod, FRACTION) or 0)


@dataclass
class _History:
    """The values of one setting over the last moments."""

    values: deque[tuple[float, Decimal]] = field(default_factory=deque)

    def note(self, at: float, value: Decimal) -> None:
        if not self.values or self.values[-1][1] != value:
            self.values.append((at, value))

    def most(self, at: float) -> Decimal:
        """The largest value in force during the last `LATE_SECONDS`."""
        while len(self.values) > 1 and self.values[1][0] < at - LATE_SECONDS:
            self.values.popleft()
        return max(value for _, value in self.values)


@dataclass(frozen=True)
class _Breach:
    """What a budget or a queue forbids as far as is known yet: it may have been gone by then, or changed."""

    at: float
    by: str  #: kind and name
    version: int  #: of the pod that was bound, or began to end; 0 where that isn't known
    text: str
    setting: str = ""  #: of the queue
    held: Decimal = Decimal()

    def came_after(self, change: int) -> bool:
        """Whether it may have happened after a change; both are versions."""
        return not change or not self.version or change < self.version


class Judge:
    """Follows a cluster and notes what must not be."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.counts: Counter[str] = Counter()  #: of what was judged, so that silence can be told from blindness
        self.pods: dict[str, Json] = {}  #: by uid
        self.nodes: dict[str, Json] = {}
        self.groups: dict[str, Json] = {}
        self.queues: dict[str, Json] = {}
        self.budgets: dict[str, Json] = {}
        self._settings: dict[tuple[str, str], _History] = defaultdict(_History)
        self._partial_since: dict[str, float] = {}
        self._whole: set[str] = set()  #: groups that had their minimum at some time
        self._node_lost_at = float("-inf")
        self._unsure: list[_Breach] = []

    # ── events ──

    def see(self, kind: str, event: str, doc: Json, at: float) -> None:
        """One event of a watch: `event` is ADDED, MODIFIED or DELETED; `at` is in seconds of any steady clock."""
        gone = event == "DELETED"
        if kind == "Pod":
            self._see_pod(doc, gone, at)
            return
        known = {
            "Node": self.nodes,
            "PodGroup": self.groups,
            "Queue": self.queues,
            "PodDisruptionBudget": self.budgets,
        }[kind]
        if gone:
            known.pop(key(doc), None)
            if kind == "Node":
                self._node_lost_at = at
            elif kind == "PodDisruptionBudget":
                self._forgive(f"budget {key(doc)}", version(doc))
            return
        known[key(doc)] = doc
        if kind == "Node":
            for name, value in doc["status"].get("allocatable", {}).items():
                self._settings[f"node {key(doc)}", name].note(at, amount(value))
        elif kind == "Queue":
            resources = (doc["spec"].get("resources") or {}).get("gpu") or {}
            for name in ("quota", "limit"):
                value = Decimal(str(resources.get(name, -1 if name == "limit" else 0)))
                value = Decimal("Infinity") if value < 0 else value
                self._settings[f"queue {key(doc)}", name].note(at, value)
                self._forgive(f"queue {key(doc)}", version(doc), name, value)

    def see_list(self, kind: str, gone: list[Json], changed: list[Json], at: float) -> None:
        """What a new list differs in from what was known: it was all so at one moment, in whatever order it comes."""
        if kind != "Pod":
            for doc in gone:
                self.see(kind, "DELETED", doc, at)
            for doc in changed:
                self.see(kind, "MODIFIED", doc, at)
            return
        taken_in = [(self._take_in(pod, True), pod, True) for pod in gone]
        taken_in += [(self._take_in(pod, False), pod, False) for pod in changed]
        for old, pod, is_gone in taken_in:
            self._judge_pod(old, pod, is_gone, at)

    def _see_pod(self, pod: Json, gone: bool, at: float) -> None:
        self._judge_pod(self._take_in(pod, gone), pod, gone, at)

    def _take_in(self, pod: Json, gone: bool) -> Json | None:
        """Know the pod as it is now; what was known of it before."""
        uid = pod["metadata"]["uid"]
        old = self.pods.pop(uid, None)
        if not gone:
            self.pods[uid] = pod
        return old

    def _judge_pod(self, old: Json | None, pod: Json, gone: bool, at: float) -> None:
        was_ending = old is not None and bool(old["metadata"].get("deletionTimestamp"))
        if gone:
            if old is not None and not was_ending:
                self._count_eviction(old, at, version(pod))
        else:
            before, after = ("" if old is None else old["spec"].get("nodeName", "")), pod["spec"].get("nodeName", "")
            if before and before != after:
                self.broken.append(f"pod {key(pod)} moved from {before} to {after or 'no node'}")
            if after and not before:
                self._review_binding(pod, at)
            if old is not None and pod["metadata"].get("deletionTimestamp") and not was_ending:
                self._count_eviction(pod, at, version(pod))
        self._follow_gang(pod, at)

    # ── bindings ──

    def _review_binding(self, pod: Json, at: float) -> None:
        self.counts["bindings"] += 1
        self.broken += self._over_capacity(pod["spec"]["nodeName"], at)
        self.broken += self._over_shared(pod["spec"]["nodeName"])
        group = self._group(pod)
        if group is not None and gpus(pod):
            self._unsure += self._over_queue(str(group["spec"].get("queue", "")), at, version(pod))

    def _on(self, node: str) -> list[Json]:
        return [pod for pod in self.pods.values() if is_active(pod) and pod["spec"]["nodeName"] == node]

    def _over_capacity(self, node: str, at: float) -> Iterator[str]:
        held: dict[str, Decimal] = defaultdict(Decimal)
        for pod in self._on(node):
            for name, value in requests(pod).items():
                held[name] += value
        for name, value in held.items():
            history = self._settings.get((f"node {node}", name))
            if history is not None and value > history.most(at):
                yield f"node {node} has {history.most(at)} {name}, and pods bound to it ask for {value}"

    def _over_shared(self, node: str) -> Iterator[str]:
        shares: dict[str, Decimal] = defaultdict(Decimal)
        for pod in self._on(node):
            if annotation(pod, FRACTION) and label(pod, GPU_GROUP):
                shares[label(pod, GPU_GROUP)] += Decimal(annotation(pod, FRACTION))
        for group, share in shares.items():
            if share > 1:
                yield f"GPU group {group} on node {node} is shared out {share} times"

    def _over_queue(self, queue: str, at: float, bound: int) -> Iterator[_Breach]:
        held, firm = self._held_by_queue()
        name, passed = queue, set[str]()
        while name and name in self.queues and name not in passed:
            passed.add(name)
            limit = self._settings[f"queue {name}", "limit"].most(at)
            quota = self._settings[f"queue {name}", "quota"].most(at)
            if held[name] > limit:
                text = f"queue {name} has a limit of {limit} GPUs and holds {held[name]}"
                yield _Breach(at, f"queue {name}", bound, text, "limit", held[name])
            if firm[name] > quota:
                text = f"queue {name} has a quota of {quota} GPUs and non-preemptible pods hold {firm[name]}"
                yield _Breach(at, f"queue {name}", bound, text, "quota", firm[name])
            name = str(self.queues[name]["spec"].get("parentQueue", ""))

    def _held_by_queue(self) -> tuple[dict[str, Decimal], dict[str, Decimal]]:
        """GPUs of active pods by queue, of all of them and of non-preemptible ones, rolled up the tree.

        As in KAI, a pod that is ending holds its node, and no longer its queue's share.
        """
        held: dict[str, Decimal] = defaultdict(Decimal)
        firm: dict[str, Decimal] = defaultdict(Decimal)
        for pod in self.pods.values():
            group = self._group(pod) if is_active(pod) else None
            if group is None or pod["metadata"].get("deletionTimestamp"):
                continue
            name, passed = str(group["spec"].get("queue", "")), set[str]()
            while name and name in self.queues and name not in passed:
                passed.add(name)
                held[name] += gpus(pod)
                if group["spec"].get("priorityClassName") in FIRM_CLASSES:
                    firm[name] += gpus(pod)
                name = str(self.queues[name]["spec"].get("parentQueue", ""))
        return held, firm

    # ── gangs ──

    def _group(self, pod: Json) -> Json | None:
        return self.groups.get(f"{pod['metadata'].get('namespace')}/{annotation(pod, POD_GROUP)}")

    def _follow_gang(self, pod: Json, at: float) -> None:
        group = self._group(pod)
        if group is not None:
            self._judge_gang(group, at)

    def _members(self, group: Json) -> list[Json]:
        namespace, name = group["metadata"]["namespace"], group["metadata"]["name"]
        return [
            pod
            for pod in self.pods.values()
            if pod["metadata"]["namespace"] == namespace and annotation(pod, POD_GROUP) == name
        ]

    def _judge_gang(self, group: Json, at: float) -> None:
        name, minimum = key(group), int(group["spec"].get("minMember") or 1)
        members = self._members(group)
        bound = sum(bool(pod["spec"].get("nodeName")) for pod in members)
        if bound >= minimum:
            self._whole.add(name)
            self.counts["gangs"] += 1
        if bound == 0 or bound >= minimum or name in self._whole:
            self._partial_since.pop(name, None)
        else:
            self._partial_since.setdefault(name, at)

    def tick(self, at: float) -> None:
        """Look at what has lasted for too long."""
        self.broken += [each.text for each in self._unsure if at - each.at > UNSURE_SECONDS]
        self._unsure = [each for each in self._unsure if at - each.at <= UNSURE_SECONDS]
        for name, since in list(self._partial_since.items()):
            group = self.groups.get(name)
            if group is None:
                del self._partial_since[name]
                continue
            self._judge_gang(group, at)
            if name in self._partial_since and at - since > PARTIAL_SECONDS:
                bound = sum(bool(pod["spec"].get("nodeName")) for pod in self._members(group))
                minimum = group["spec"].get("minMember")
                self.broken.append(f"gang {name} has been bound in part, {bound} of {minimum}, for {at - since:.0f} s")
                del self._partial_since[name]

    # ── evictions and disruption budgets ──

    def _count_eviction(self, pod: Json, at: float, ended: int) -> None:
        """A pod begins to end; budgets that guard it must still be kept, unless a node was lost a moment ago."""
        self.counts["deletions"] += 1
        if not is_active(pod) or pod["spec"]["nodeName"] not in self.nodes:
            return
        for budget in self.budgets.values():
            if budget["metadata"]["namespace"] != pod["metadata"]["namespace"]:
                continue
            wanted = (budget["spec"].get("selector") or {}).get("matchLabels") or {}
            labels = pod["metadata"].get("labels") or {}
            if not wanted or any(labels.get(name) != value for name, value in wanted.items()):
                continue
            if budget["metadata"].get("deletionTimestamp") or pod.get("status", {}).get("phase") != "Running":
                continue
            self.counts["guarded evictions"] += 1
            healthy = sum(is_healthy(each) for each in self._guarded(budget, wanted))
            minimum = int(budget["spec"]["minAvailable"])
            if healthy >= minimum:
                continue
            if at - self._node_lost_at < LATE_SECONDS:
                self.counts["budgets short after a node was lost"] += 1
            else:
                text = (
                    f"pod {key(pod)} was evicted, and {healthy} of {minimum} are left that budget {key(budget)} wants"
                )
                self._unsure.append(_Breach(at, f"budget {key(budget)}", ended, text))

    def _forgive(self, by: str, change: int, setting: str = "", value: Decimal = Decimal()) -> None:
        """A budget went, or a queue's setting is another one: what happened after that was allowed."""
        self._unsure = [
            each
            for each in self._unsure
            if (each.by, each.setting) != (by, setting) or each.held > value or not each.came_after(change)
        ]

    def _guarded(self, budget: Json, wanted: dict[str, str]) -> Iterator[Json]:
        for pod in self.pods.values():
            labels = pod["metadata"].get("labels") or {}
            same = pod["metadata"]["namespace"] == budget["metadata"]["namespace"]
            if same and all(labels.get(name) == value for name, value in wanted.items()):
                yield pod

    # ── the end ──

    def at_rest(self) -> list[str]:
        """What must hold once nothing has changed for a while and there is room for everybody."""
        found = [each.text for each in self._unsure]
        for pod in self.pods.values():
            phase = pod.get("status", {}).get("phase")
            if pod["metadata"].get("deletionTimestamp"):
                found.append(f"pod {key(pod)} has been ending for too long")
            elif phase == "Pending":
                node = pod["spec"].get("nodeName") or "no node"
                found.append(f"pod {key(pod)} still waits, on {node}: {told(pod)}")
        for group in self.groups.values():
            active = sum(is_active(pod) for pod in self._members(group))
            if 0 < active < int(group["spec"].get("minMember") or 1) and not self._has_finished(group):
                found.append(f"gang {key(group)} rests with {active} of {group['spec'].get('minMember')} pods")
        return found + self._reservations()

    def _has_finished(self, group: Json) -> bool:
        return any(pod.get("status", {}).get("phase") in ("Succeeded", "Failed") for pod in self._members(group))

    def _reservations(self) -> list[str]:
        """Every shared GPU in use is reserved once, and nothing else is."""
        used: set[tuple[str, str]] = set()
        held: Counter[tuple[str, str]] = Counter()
        for pod in self.pods.values():
            if not is_active(pod) or not label(pod, GPU_GROUP):
                continue
            place = (pod["spec"]["nodeName"], label(pod, GPU_GROUP))
            if pod["metadata"]["namespace"] == RESERVATION_NAMESPACE:
                held[place] += 1
            else:
                used.add(place)
        return [
            *(f"shared GPU {group} on {node} is used and not reserved" for node, group in used - held.keys()),
            *(f"shared GPU {group} on {node} is reserved and not used" for node, group in held.keys() - used),
            *(f"shared GPU {group} on {node} is reserved {n} times" for (node, group), n in held.items() if n > 1),
        ]
