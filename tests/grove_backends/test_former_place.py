"""A gang that refers to another would rather run where that one is; in an update, where its own pods were."""

from __future__ import annotations

import msgspec

from bosket.api.core import Pod
from bosket.api.core.affinity import Affinity, NodeAffinity, PreferredSchedulingTerm
from bosket.api.grove import NamespacedName
from bosket.grove.backends.former_place import prefer_former_places
from tests.grove_backends.scene import member, part, pod_gang
from tests.rig import NAMESPACE


def liked(pod: Pod) -> list[tuple[str, int]]:
    preferred = pod.spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution if _has(pod) else ()  # type: ignore[union-attr]
    return [
        (each.preference.matchFields[0].values[0], each.weight) for each in preferred if each.preference.matchFields
    ]


def _has(pod: Pod) -> bool:
    return pod.spec.affinity is not None and pod.spec.affinity.nodeAffinity is not None


def going(pod: Pod) -> Pod:
    return msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, deletionTimestamp="2026-11-16T00:00:00Z")
    )


def referring(to: str) -> NamespacedName:
    return NamespacedName(namespace=NAMESPACE, name=to)


def test_places_of_the_former_gang_are_liked_those_of_the_same_clique_most() -> None:
    gang = pod_gang("g", part("a"), reuseReservationRef=referring("old"))
    former = [member("old", "b", node="n2"), member("old", "a", node="n1"), member("old", "a", 1)]
    assert liked(prefer_former_places(gang, member("g", "a"), former)) == [("n1", 100), ("n2", 10)]


def test_in_an_update_only_places_that_become_free_are_liked() -> None:
    gang = pod_gang("g", part("a"), reuseReservationRef=referring("g"))
    former = [
        going(member("g", "a", node="n1")),
        member("g", "a", 1, node="n2"),
        going(member("g", "b", node="n3")),
    ]
    assert liked(prefer_former_places(gang, member("g", "a", 2), former)) == [("n1", 100)]


def test_other_preferences_stay() -> None:
    gang = pod_gang("g", part("a"), reuseReservationRef=referring("old"))
    own = PreferredSchedulingTerm(weight=1)
    affinity = Affinity(nodeAffinity=NodeAffinity(preferredDuringSchedulingIgnoredDuringExecution=(own,)))
    pod = prefer_former_places(gang, member("g", "a", affinity=affinity), [member("old", "a", node="n1")])
    assert pod.spec.affinity is not None
    assert pod.spec.affinity.nodeAffinity is not None
    assert pod.spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0] == own
    assert liked(pod) == [("n1", 100)]


def test_a_gang_that_refers_to_nobody_likes_nothing() -> None:
    assert prefer_former_places(pod_gang("g", part("a")), member("g", "a"), []) == member("g", "a")
