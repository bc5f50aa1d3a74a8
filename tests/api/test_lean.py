"""Lean Structs: what is left out is skipped, and everything else is as in the whole one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bosket.api.core import Container, ContainerPort, Pod, PodSpec
from bosket.api.lean import lean, without
from bosket.api.object import ObjectMeta
from bosket.api.table import resource_of

META = without(ObjectMeta, ("managedFields",))
CONTAINERS: Any = tuple.__class_getitem__((lean(Container, ("name", "ports")), ...))
LEAN = lean(Pod, ("status",), metadata=META, spec=lean(PodSpec, ("nodeName",), containers=CONTAINERS))
WHOLE = Pod(
    metadata=ObjectMeta(name="p", labels={"a": "b"}),
    spec=PodSpec(
        nodeName="n",
        hostname="h",
        containers=(Container(name="c", image="i", ports=(ContainerPort(containerPort=80),)),),
    ),
)


def decoded(**metadata: object) -> Pod:
    document = msgspec.to_builtins(WHOLE)
    document["metadata"].update(metadata)
    return msgspec.json.decode(msgspec.json.encode(document), type=LEAN)


def test_fields_that_are_left_out_have_their_defaults() -> None:
    pod = decoded(managedFields=[{"manager": "kubelet"}])
    assert pod.metadata == META(name="p", labels={"a": "b"})
    assert pod.metadata.managedFields == ()
    assert (pod.spec.nodeName, pod.spec.hostname) == ("n", "")
    assert pod.spec.containers[0].ports == WHOLE.spec.containers[0].ports
    assert pod.spec.containers[0].image == ""


def test_it_is_an_object_of_its_kind() -> None:
    pod = decoded()
    assert isinstance(pod, Pod)
    assert pod.key == WHOLE.key
    assert resource_of(type(pod)) is resource_of(Pod)


def test_what_is_left_out_may_be_anything() -> None:
    assert decoded(managedFields="nonsense").metadata.name == "p"


def test_it_is_written_without_what_was_left_out() -> None:
    document = msgspec.json.decode(msgspec.json.encode(decoded()))
    assert document == {
        "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "ports": [{"containerPort": 80}]}]},
    }


def test_a_field_that_there_is_not_is_named() -> None:
    with pytest.raises(ValueError, match="Container has no field portz"):
        lean(Container, ("portz",))
