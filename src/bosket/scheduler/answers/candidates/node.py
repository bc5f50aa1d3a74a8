"""Changes of nodes: more of them, larger ones, and what keeps pods off those that are there."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from bosket.api.core import Node, NodeCondition, NodeStatus
from bosket.api.object import ObjectMeta
from bosket.api.policy import PodDisruptionBudget
from bosket.api.quantity import Quantity
from bosket.scheduler.answers.candidate import Candidate, Patches
from bosket.scheduler.answers.candidates.gang import waiting_pods
from bosket.scheduler.answers.patching import Patching, creation, removal
from bosket.scheduler.answers.trial import Trial
from bosket.scheduler.model.reason import EvictionRefused
from bosket.scheduler.model.resource import CPU, GPU, MEMORY, PODS, Vector

#: So many nodes are added at most.
MOST_NODES = 32
HOSTNAME = "kubernetes.io/hostname"


def of_nodes(trial: Trial) -> Iterator[Candidate]:
    """Candidates for the cluster's administrator."""
    yield from _cordons(trial)
    yield from _labels(trial)
    yield from _taints(trial)
    yield from _budgets(trial)
    yield from _more(trial)


def _cordons(trial: Trial) -> Iterator[Candidate]:
    cordoned = [each for each in trial.snapshot.nodes.nodes if each.spec.unschedulable]
    if cordoned:
        patches = [patch for node in cordoned for patch in Patching(node).remove("spec", "unschedulable").patch]
        yield Candidate.single("cluster-admin", "uncordon", f"uncordon {_named(cordoned)}", *patches)


def _taints(trial: Trial) -> Iterator[Candidate]:
    tainted = [
        each
        for each in trial.snapshot.nodes.nodes
        if any(taint.effect in ("NoSchedule", "NoExecute") for taint in each.spec.taints)
    ]
    if tainted:
        patches = [patch for node in tainted for patch in Patching(node).remove("spec", "taints").patch]
        yield Candidate.single("cluster-admin", "taint", f"take the taints off {_named(tainted)}", *patches)


def _labels(trial: Trial) -> Iterator[Candidate]:
    """Labels that the pods select and no node has, given to one node after the other."""
    wanted = {key: value for pod in waiting_pods(trial.job) for key, value in pod.spec.nodeSelector.items()}
    table = trial.snapshot.nodes
    lacking = [
        node for node in table.nodes if any(node.metadata.labels.get(key) != value for key, value in wanted.items())
    ]
    if not wanted or not lacking or HOSTNAME in wanted:
        return
    lacking.sort(key=lambda node: -float(table.idle[GPU, table.rows[node.metadata.name]]))
    labels = ", ".join(f"{key}={value}" for key, value in wanted.items())

    def patch(size: int) -> Patches:
        made: Patches = ()
        for node in lacking[:size]:
            patching = Patching(node)
            for key, value in wanted.items():
                patching.set("metadata", "labels", key, value=value)
            made += patching.patch
        return made

    yield Candidate(
        "cluster-admin",
        "node-label",
        patch,
        lambda size: f"label {_named(lacking[:size])} with {labels}",
        most=min(len(lacking), max(1, len(waiting_pods(trial.job)))),
        is_number=True,
    )


def _budgets(trial: Trial) -> Iterator[Candidate]:
    reasons = trial.waiting.reasons if trial.waiting is not None else ()
    if not any(isinstance(each, EvictionRefused) for each in reasons):
        return
    for budget in trial.cluster.objects(PodDisruptionBudget):
        sentence = f"delete PodDisruptionBudget {budget.key}"
        yield Candidate.single("cluster-admin", "disruption-budget", sentence, removal(budget))


def _more(trial: Trial) -> Iterator[Candidate]:
    """Nodes like the best that there is for the job; larger, where none is large enough."""
    table, pods = trial.snapshot.nodes, waiting_pods(trial.job)
    if not pods:
        return
    specs = [task.pod_class for task in trial.job.tasks if not task.node]
    need = np.max([np.pad(each.request, (0, table.allocatable.shape[0] - len(each.request))) for each in specs], axis=0)
    taking = trial.snapshot.taking_nodes()
    if not len(table):
        yield _first_nodes(trial, need)
        return
    is_large = np.all(table.allocatable >= need[:, None], axis=0)
    selectors = {key: value for pod in pods for key, value in pod.spec.nodeSelector.items()}
    matches = np.array(
        [all(each.metadata.labels.get(key) == value for key, value in selectors.items()) for each in table.nodes]
    )
    order = np.lexsort((-table.allocatable[GPU], ~taking, ~matches, ~is_large))
    model = table.nodes[int(order[0])]
    kind, larger = "more-nodes", ""
    amounts = dict(model.status.allocatable)
    row = table.rows[model.metadata.name]
    if not is_large[row]:
        kind = "larger-nodes"
        short = [place for place in range(len(need)) if need[place] > table.allocatable[place, row]]
        for place in short:
            amounts[_wire_name(trial.snapshot.resource_names[place], amounts)] = _wire_amount(place, need[place])
        larger = ", but with " + ", ".join(
            _in_words(trial.snapshot.resource_names[place], place, need[place]) for place in short
        )

    def patch(size: int) -> Patches:
        return tuple(creation(_copy(model, number, amounts)) for number in range(size))

    yield Candidate(
        "cluster-admin",
        kind,
        patch,
        lambda size: f"add {size} node{'s' if size != 1 else ''} like {model.metadata.name}{larger}",
        most=max(len(pods), MOST_NODES),  # others that wait may take the first ones
        is_number=True,
        from_below=True,
        has_commands=False,
    )


def _first_nodes(trial: Trial, need: Vector) -> Candidate:
    """Nodes for a cluster that has none, each as large as the largest pod."""
    names = trial.snapshot.resource_names
    amounts: dict[str, Quantity] = {"pods": "110"}
    for place, amount in enumerate(need):
        if amount and place != PODS:
            amounts[_wire_name(names[place], amounts)] = _wire_amount(place, float(amount))
    places = [int(place) for place in np.flatnonzero(need) if place != PODS]
    asked = [_in_words(names[place], place, float(need[place])) for place in places]
    ready = NodeStatus(conditions=(NodeCondition(type="Ready", status="True"),))
    model = Node(metadata=ObjectMeta(name="node"), status=ready)
    return Candidate(
        "cluster-admin",
        "more-nodes",
        lambda size: tuple(creation(_copy(model, number, amounts)) for number in range(size)),
        lambda size: f"add {size} node{'s' if size != 1 else ''} with {', '.join(asked)} free",
        most=MOST_NODES,
        is_number=True,
        from_below=True,
        has_commands=False,
    )


def _copy(model: Node, number: int, amounts: dict[str, Quantity]) -> Node:
    name = f"{model.metadata.name}-more-{number}"
    labels = {key: name if key == HOSTNAME else value for key, value in model.metadata.labels.items()}
    spec = msgspec.structs.replace(model.spec, unschedulable=False, providerID="")
    conditions = (NodeCondition(type="Ready", status="True"),)
    status = msgspec.structs.replace(model.status, allocatable=amounts, capacity=amounts, conditions=conditions)
    return msgspec.structs.replace(model, metadata=ObjectMeta(name=name, labels=labels), spec=spec, status=status)


def _wire_name(name: str, amounts: dict[str, Quantity]) -> str:
    if name != "gpu":
        return name
    return next((each for each in ("nvidia.com/gpu", "amd.com/gpu") if each in amounts), "nvidia.com/gpu")


def _wire_amount(place: int, amount: float) -> str:
    return f"{int(amount)}m" if place == CPU else str(int(amount))


def _in_words(name: str, place: int, amount: float) -> str:
    if place == GPU:
        return f"{amount:g} GPUs"
    if place == CPU:
        return f"{amount / 1000:g} CPU cores"
    return f"{amount / 2**30:.4g} GiB of memory" if place == MEMORY else f"{amount:g} {name}"


def _named(nodes: list[Node]) -> str:
    names = [each.metadata.name for each in nodes]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
