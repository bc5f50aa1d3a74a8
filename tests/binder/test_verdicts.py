"""What can be said about a request without doing anything."""

from __future__ import annotations

import pytest

from bosket.api.core import Pod, PodSpec, PodStatus
from bosket.api.kai import BindRequest, BindRequestSpec, BindRequestStatus
from bosket.api.object import ObjectMeta, OwnerReference
from bosket.services.binder.plugin import ReceivedResource
from bosket.services.binder.verdict import Bound, Failure, attempts_left, is_done, malformed, pause_seconds, settled

TYPES = ReceivedResource.resource_types


def request(
    *,
    pod_name: str = "a",
    node: str = "n1",
    kind: str = "Regular",
    limit: int | None = None,
    owner_uid: str = "uid-a",
    phase: str = "",
    attempts: int = 0,
    deleting: bool = False,
) -> BindRequest:
    return BindRequest(
        metadata=ObjectMeta(
            name="a",
            namespace="ml",
            ownerReferences=(OwnerReference(apiVersion="v1", kind="Pod", name="a", uid=owner_uid),)
            if owner_uid
            else (),
            deletionTimestamp="2025-01-01T00:00:00Z" if deleting else None,
        ),
        spec=BindRequestSpec(podName=pod_name, selectedNode=node, receivedResourceType=kind, backoffLimit=limit),
        status=BindRequestStatus(phase=phase, failedAttempts=attempts),
    )


def pod(*, node: str = "", uid: str = "uid-a", phase: str = "Pending", deleting: bool = False) -> Pod:
    return Pod(
        metadata=ObjectMeta(
            name="a", namespace="ml", uid=uid, deletionTimestamp="2025-01-01T00:00:00Z" if deleting else None
        ),
        spec=PodSpec(nodeName=node),
        status=PodStatus(phase=phase),
    )


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (request(pod_name=""), "BindRequest ml/a: spec.podName is empty; expected the name of a pod"),
        (request(node=""), "BindRequest ml/a: spec.selectedNode is empty; expected the name of a node"),
        (
            request(kind="Half"),
            'BindRequest ml/a: spec.receivedResourceType is "Half"; this binder knows MigInstance, Regular',
        ),
    ],
)
def test_a_bad_request_fails_for_good_with_a_sentence_that_names_the_field(bad: BindRequest, sentence: str) -> None:
    failure = malformed(bad, TYPES)
    assert failure is not None
    assert failure.final
    assert failure.reason.startswith(sentence)


@pytest.mark.parametrize("kind", ["", "Regular", "MigInstance"])
def test_a_good_request_is_not_refused(kind: str) -> None:
    assert malformed(request(kind=kind), TYPES) is None


def test_a_pod_that_can_be_bound_leaves_the_outcome_open() -> None:
    assert settled(request(), pod()) is None
    assert settled(request(owner_uid=""), pod(uid="any")) is None


def test_a_pod_on_the_selected_node_is_a_success_and_on_another_a_failure_for_good() -> None:
    assert settled(request(), pod(node="n1", phase="Running")) == Bound(pod(node="n1", phase="Running"))
    elsewhere = settled(request(), pod(node="n2"))
    assert isinstance(elsewhere, Failure)
    assert elsewhere.final
    assert elsewhere.reason == "pod ml/a is bound to node n2 already, not to n1"


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        (pod(uid="uid-b"), "uid uid-a, which is gone; the one of that name has uid uid-b"),
        (pod(uid="uid-b", node="n1"), "which is gone"),
        (pod(deleting=True), "is being deleted"),
        (pod(phase="Failed"), "has ended: it is Failed"),
    ],
)
def test_a_pod_that_is_no_longer_the_one_that_was_meant_is_not_bound(gone: Pod, words: str) -> None:
    failure = settled(request(), gone)
    assert isinstance(failure, Failure)
    assert failure.final
    assert words in failure.reason


@pytest.mark.parametrize(
    ("limit", "attempts", "left"), [(None, 1, False), (0, 1, False), (1, 1, False), (3, 1, True), (3, 3, False)]
)
def test_a_failed_request_is_tried_again_until_its_limit_and_without_one_never(
    limit: int | None, attempts: int, left: bool
) -> None:
    assert attempts_left(request(limit=limit, attempts=attempts, phase="Failed")) is left


@pytest.mark.parametrize("phase", ["", "Pending"])
def test_a_fresh_request_is_tried(phase: str) -> None:
    assert attempts_left(request(phase=phase))
    assert not is_done(request(phase=phase))


def test_a_request_is_done_when_it_succeeded_or_goes() -> None:
    assert is_done(request(phase="Succeeded"))
    assert is_done(request(deleting=True))


def test_pauses_double_up_to_the_longest() -> None:
    pauses = [pause_seconds(request(attempts=attempts), 60.0) for attempts in (1, 2, 3, 7, 2000)]
    assert pauses == [1.0, 2.0, 4.0, 60.0, 60.0]
