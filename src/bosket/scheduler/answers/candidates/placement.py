"""Changes of where a job's pods may go: topology, node selectors, affinity, tolerations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bosket.api.core import ConfigMap, PersistentVolumeClaim, Pod
from bosket.api.object import ObjectKey, ObjectMeta
from bosket.scheduler.answers.candidate import Candidate
from bosket.scheduler.answers.candidates.gang import waiting_pods
from bosket.scheduler.answers.change import ObjectPatch
from bosket.scheduler.answers.patching import Patching, creation, document
from bosket.scheduler.answers.trial import Trial
from bosket.scheduler.model.reason import TopologyUnusable
from bosket.scheduler.plugins.predicates.unfit import required_config_maps


def of_placement(trial: Trial) -> Iterator[Candidate]:
    """Candidates for the job's owner."""
    yield from _topology(trial)
    pods = waiting_pods(trial.job)
    yield from _tolerations(trial, pods)
    yield from _selectors(pods)
    yield from _volumes(trial, pods)
    yield from _config_maps(trial, pods)
    yield from _affinity(pods)


def _topology(trial: Trial) -> Iterator[Candidate]:
    job = trial.job
    group, patching, levels = job.group, Patching(job.group), []
    places: list[tuple[tuple[str | int, ...], Any]] = [(("spec",), group.spec)]
    places += [(("spec", "subGroups", number), each) for number, each in enumerate(group.spec.subGroups)]
    for path, part in places:
        constraint = part.topologyConstraint
        if constraint is None or not constraint.requiredTopologyLevel:
            continue
        levels.append(constraint.requiredTopologyLevel)
        field = (*path, "topologyConstraint")
        if not constraint.preferredTopologyLevel:
            patching.set(*field, "preferredTopologyLevel", value=constraint.requiredTopologyLevel)
        patching.remove(*field, "requiredTopologyLevel")
    if levels:
        sentence = f"prefer one domain of {', '.join(dict.fromkeys(levels))} instead of requiring it"
        yield Candidate.single("user", "topology-preferred", sentence, *patching.patch)
    constraint = group.spec.topologyConstraint
    reasons = trial.waiting.reasons if trial.waiting is not None else ()
    if constraint is not None and any(isinstance(each, TopologyUnusable) for each in reasons):
        patch = Patching(group).remove("spec", "topologyConstraint").patch
        sentence = f"drop the topology constraint (topology {constraint.topology})"
        yield Candidate.single("user", "topology-dropped", sentence, *patch)


def _tolerations(trial: Trial, pods: list[Pod]) -> Iterator[Candidate]:
    taints = dict.fromkeys(
        (taint.key, taint.value, taint.effect)
        for node in trial.snapshot.nodes.nodes
        for taint in node.spec.taints
        if taint.effect in ("NoSchedule", "NoExecute")
    )
    choices = [[taint] for taint in taints] + ([list(taints)] if len(taints) > 1 else [])
    for chosen in choices:
        added = [
            {"key": key, "operator": "Equal", "value": value, "effect": effect}
            if value
            else {"key": key, "operator": "Exists", "effect": effect}
            for key, value, effect in chosen
        ]
        patches = [
            patch
            for pod in pods
            for patch in Patching(pod).set("spec", "tolerations", value=[*document(pod.spec.tolerations), *added]).patch
        ]
        names = ", ".join(f"{key}={value}" if value else key for key, value, _ in chosen)
        yield Candidate.single("user", "toleration", f"tolerate the taint {names}", *patches, in_template=True)


def _selectors(pods: list[Pod]) -> Iterator[Candidate]:
    keys = dict.fromkeys(key for pod in pods for key in pod.spec.nodeSelector)
    for chosen in [[key] for key in keys] + ([list(keys)] if len(keys) > 1 else []):
        patches: list[ObjectPatch] = []
        for pod in pods:
            patching = Patching(pod)
            for key in chosen:
                patching.remove("spec", "nodeSelector", key)
            patches += patching.patch
        values = [f"{key}={value}" for key in chosen for value in dict.fromkeys(_values(pods, key))]
        sentence = f"drop the node selector {', '.join(values)}"
        yield Candidate.single("user", "node-selector", sentence, *patches, in_template=True)


def _values(pods: list[Pod], key: str) -> list[str]:
    return [pod.spec.nodeSelector[key] for pod in pods if key in pod.spec.nodeSelector]


def _volumes(trial: Trial, pods: list[Pod]) -> Iterator[Candidate]:
    """Volumes whose claims don't exist, and ConfigMaps that don't."""
    claims = {
        each.persistentVolumeClaim.claimName: pod.metadata.namespace
        for pod in pods
        for each in pod.spec.volumes
        if each.persistentVolumeClaim is not None
    }
    missing = [
        name
        for name, namespace in claims.items()
        if trial.cluster.get(PersistentVolumeClaim, ObjectKey(namespace, name)) is None
    ]
    for chosen, sentence in (
        (missing, f"drop the volume of the missing claim {', '.join(missing)}, or create the claim"),
        (list(claims), f"drop the volume of claim {', '.join(claims)}"),
    ):
        patches: list[ObjectPatch] = []
        for pod in pods if chosen else ():
            kept = [
                each
                for each in pod.spec.volumes
                if each.persistentVolumeClaim is None or each.persistentVolumeClaim.claimName not in chosen
            ]
            names = {each.name for each in kept}
            patching = Patching(pod).set("spec", "volumes", value=document(kept))
            for number, container in enumerate(pod.spec.containers):
                if any(mount.name not in names for mount in container.volumeMounts):
                    mounts = [mount for mount in container.volumeMounts if mount.name in names]
                    patching.set("spec", "containers", number, "volumeMounts", value=document(mounts))
            patches += patching.patch
        if patches:
            yield Candidate.single("user", "volume", sentence, *patches, in_template=True)


def _config_maps(trial: Trial, pods: list[Pod]) -> Iterator[Candidate]:
    keys = {ObjectKey(pod.metadata.namespace, name) for pod in pods for name in required_config_maps(pod)}
    missing = sorted(key for key in keys if trial.cluster.get(ConfigMap, key) is None)
    if missing:
        made = [ConfigMap(metadata=ObjectMeta(name=key.name, namespace=key.namespace)) for key in missing]
        sentence = f"create ConfigMap {', '.join(map(str, missing))}"
        yield Candidate.single("user", "config-map", sentence, *map(creation, made))


def _affinity(pods: list[Pod]) -> Iterator[Candidate]:
    kinds = (
        ("nodeAffinity", "node-affinity", "drop what it requires of nodes (nodeAffinity)"),
        ("podAffinity", "pod-affinity", "drop what it requires of its neighbours (podAffinity)"),
        ("podAntiAffinity", "pod-anti-affinity", "allow the neighbours that it excludes (podAntiAffinity)"),
    )
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    for part, kind, sentence in kinds:
        patches = [
            patch
            for pod in pods
            if pod.spec.affinity is not None and getattr(pod.spec.affinity, part) is not None
            for patch in Patching(pod).remove("spec", "affinity", part, required).patch
        ]
        if patches:
            yield Candidate.single("user", kind, sentence, *patches, in_template=True)
    spread = [patch for pod in pods for patch in Patching(pod).remove("spec", "topologySpreadConstraints").patch]
    if spread:
        sentence = "drop its topologySpreadConstraints"
        yield Candidate.single("user", "topology-spread", sentence, *spread, in_template=True)
