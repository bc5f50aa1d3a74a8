"""Affinity, anti-affinity and spreading of test pods, in few words."""

from __future__ import annotations

from typing import Any

from bosket.api.core import (
    Affinity,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from bosket.api.object import LabelSelector

HOST = "kubernetes.io/hostname"


def term(by: str = HOST, *, namespaces: tuple[str, ...] = (), **fields: Any) -> PodAffinityTerm:
    """Other fields than those of the term itself are labels that the pods must have: `term("zone", app="db")`."""
    own = {
        name: fields.pop(name)
        for name in ("namespaceSelector", "matchLabelKeys", "mismatchLabelKeys")
        if name in fields
    }
    selector = fields.pop("labelSelector", LabelSelector(matchLabels=fields))
    return PodAffinityTerm(topologyKey=by, labelSelector=selector, namespaces=namespaces, **own)


def near(*terms: PodAffinityTerm) -> Affinity:
    return Affinity(podAffinity=PodAffinity(requiredDuringSchedulingIgnoredDuringExecution=terms))


def away(*terms: PodAffinityTerm) -> Affinity:
    return Affinity(podAntiAffinity=PodAntiAffinity(requiredDuringSchedulingIgnoredDuringExecution=terms))


def rather_near(weight: int, wanted: PodAffinityTerm) -> Affinity:
    weighted = (WeightedPodAffinityTerm(weight=weight, podAffinityTerm=wanted),)
    return Affinity(podAffinity=PodAffinity(preferredDuringSchedulingIgnoredDuringExecution=weighted))


def rather_away(weight: int, wanted: PodAffinityTerm) -> Affinity:
    weighted = (WeightedPodAffinityTerm(weight=weight, podAffinityTerm=wanted),)
    return Affinity(podAntiAffinity=PodAntiAffinity(preferredDuringSchedulingIgnoredDuringExecution=weighted))


def spread(by: str, skew: int = 1, *, when: str = "DoNotSchedule", **fields: Any) -> TopologySpreadConstraint:
    names = ("minDomains", "nodeAffinityPolicy", "nodeTaintsPolicy", "matchLabelKeys", "labelSelector")
    own = {name: fields.pop(name) for name in names if name in fields}
    own.setdefault("labelSelector", LabelSelector(matchLabels=fields))
    return TopologySpreadConstraint(maxSkew=skew, topologyKey=by, whenUnsatisfiable=when, **own)
