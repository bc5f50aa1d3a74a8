"""Patches of a cluster's objects: what they may be, what they do, and that a cluster is as it was afterwards."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api.core import Node, Pod
from bosket.api.kai import Queue
from bosket.api.object import ObjectKey
from bosket.scheduler.answers.change import ChangeError, ObjectPatch, ObjectReference, patched, read_patches
from bosket.scheduler.answers.patching import Patching, creation, removal
from bosket.scheduler.answers.trial import start_of
from bosket.testing.build import job, node, pod, queue
from tests.answers.clusters import cluster
from tests.present import present

QUEUE = ObjectReference("scheduling.run.ai/v2", "Queue", "q")


def patch(reference: ObjectReference, *operations: dict[str, Any]) -> ObjectPatch:
    return ObjectPatch(reference, operations)


def test_a_field_in_a_list_can_be_changed() -> None:
    before = pod("a").gpu(8).build()
    path = "/spec/containers/0/resources/requests/nvidia.com~1gpu"
    after = patched(before, patch(ObjectReference.to(before), {"op": "replace", "path": path, "value": "1"}))
    assert isinstance(after, Pod)
    assert after.spec.containers[0].resources.requests["nvidia.com/gpu"] == "1"
    assert before.spec.containers[0].resources.requests["nvidia.com/gpu"] == "8"


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (b"[", "change.json: "),
        (b'{"kind": "Queue"}', "change.json: "),
        (b'[{"object": {"kind": "Queue"}, "ops": []}]', "apiVersion"),
    ],
)
def test_what_is_no_patch_is_refused_by_name(document: bytes, complaint: str) -> None:
    with pytest.raises(ChangeError, match=complaint):
        read_patches(document, "change.json")


def test_a_change_is_read_as_explain_prints_it() -> None:
    change = {
        "kind": "queue-limit",
        "patch": [{"object": {"apiVersion": "v1", "kind": "Node", "name": "n"}, "ops": []}],
    }
    (found,) = read_patches(msgspec.json.encode(change), "change.json")
    assert found.object == ObjectReference("v1", "Node", "n")


def test_objects_of_kinds_that_no_decision_depends_on_are_refused() -> None:
    with pytest.raises(ChangeError, match="doesn't look at Secret"):
        patched(None, patch(ObjectReference("v1", "Secret", "s"), {"op": "add", "path": "", "value": {}}))


def test_an_object_keeps_its_name() -> None:
    with pytest.raises(ChangeError, match="an object keeps its name"):
        patched(queue("q"), patch(QUEUE, {"op": "replace", "path": "/metadata/name", "value": "other"}))


def test_an_object_that_is_not_there_can_only_be_made() -> None:
    operation = {"op": "replace", "path": "/spec/priority", "value": 1}
    with pytest.raises(ChangeError, match="there is no such object"):
        patched(None, patch(QUEUE, operation))
    with pytest.raises(ChangeError, match="no such object to remove"):
        patched(None, patch(QUEUE, {"op": "remove", "path": ""}))


def test_changes_are_taken_back() -> None:
    asked = cluster(queue("q"), node("n", gpus=1), job("a", gpus=2))
    digest, before = asked.digest(), asked.decide()
    larger = Patching(node("n", gpus=1)).set("status", "allocatable", "nvidia.com/gpu", value="2").patch
    with asked.changed(larger) as snapshot:
        assert start_of(asked.decide(snapshot), ObjectKey("default", "a")) is not None
        assert asked.digest() != digest
    assert asked.digest() == digest
    assert [each.text for each in asked.decide().waiting] == [each.text for each in before.waiting]


def test_a_change_that_fails_changes_nothing() -> None:
    asked = cluster(queue("q"), node("n", gpus=1), job("a", gpus=2))
    digest = asked.digest()
    good = Patching(queue("q")).set("spec", "priority", value=1).patch
    with pytest.raises(ChangeError), asked.changed([*good, removal(node("elsewhere"))]):
        pass
    assert asked.digest() == digest


def test_objects_are_made_and_removed() -> None:
    asked = cluster(queue("q"), node("n", gpus=1), job("a", gpus=1), job("b", gpus=1, on="n"))
    key = ObjectKey("default", "a")
    with asked.changed([creation(node("m", gpus=1))]) as snapshot:
        assert present(start_of(asked.decide(snapshot), key)).nodes == {"default/a-0": "m"}
    running = asked.get(Pod, ObjectKey("default", "b-0"))
    with asked.changed([removal(present(running))]) as snapshot:
        assert present(start_of(asked.decide(snapshot), key)).nodes == {"default/a-0": "n"}
    assert asked.get(Pod, ObjectKey("default", "b-0")) is running


def test_changes_can_be_nested_and_repeated() -> None:
    asked = cluster(queue("q", limit=0), node("n", gpus=1), job("a", gpus=1))
    limit = (
        Patching(present(asked.get(Queue, ObjectKey("", "q")))).set("spec", "resources", "gpu", "limit", value=1).patch
    )
    for _ in range(2):
        with asked.changed(limit), asked.changed([removal(present(asked.get(Node, ObjectKey("", "n"))))]) as snapshot:
            assert not len(snapshot.nodes)
        with asked.changed(limit) as snapshot:
            assert start_of(asked.decide(snapshot), ObjectKey("default", "a")) is not None


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["quota", "limit", "overQuotaWeight"]), st.integers(0, 9)), min_size=1, max_size=4
    )
)
def test_fields_that_are_set_have_the_last_value(changes: Sequence[tuple[str, int]]) -> None:
    before = queue("q", quota=0)
    patching = Patching(before)
    for field, value in changes:
        patching.set("spec", "resources", "gpu", field, value=float(value))
    (made,) = patching.patch
    after = patched(before, made)
    assert isinstance(after, Queue)
    gpu = present(after.spec.resources).gpu
    assert all(getattr(gpu, field) == value for field, value in dict(changes).items())
