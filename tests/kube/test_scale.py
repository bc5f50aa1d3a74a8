"""The client sizes what can be scaled; the server is the embedded one."""

from __future__ import annotations

import pytest

from bosket.api.apps import Deployment, DeploymentSpec
from bosket.api.core import Container, PodSpec, PodTemplateSpec
from bosket.api.object import LabelSelector, ObjectMeta
from bosket.kube.client import Client
from bosket.kube.errors import Invalid, NotFound
from tests.kube.scripted import Script, client_of
from tests.runtime.cluster import Cluster


@pytest.fixture
async def client() -> Client:
    """Of a server with a deployment of two."""
    labels = {"a": "b"}
    spec = DeploymentSpec(
        replicas=2,
        selector=LabelSelector(matchLabels=labels),
        template=PodTemplateSpec(
            metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=(Container(name="c", image="i"),))
        ),
    )
    client = (await Cluster().start("ns")).client
    await client.create(Deployment(metadata=ObjectMeta(name="d", namespace="ns"), spec=spec))
    return client


async def test_a_new_size_is_written_and_the_answer_is_a_scale(client: Client) -> None:
    scale = await client.scale(Deployment, "d", "ns", 5)
    assert (scale.metadata.name, scale.spec.replicas, scale.status.selector) == ("d", 5, "a=b")
    assert (await client.get(Deployment, "d", "ns")).spec.replicas == 5


async def test_a_size_of_zero_is_a_size(client: Client) -> None:
    assert (await client.scale(Deployment, "d", "ns", 0)).spec.replicas == 0
    assert (await client.get(Deployment, "d", "ns")).spec.replicas == 0


async def test_a_size_that_makes_no_sense_and_an_object_that_is_not_there_are_refused(client: Client) -> None:
    with pytest.raises(Invalid):
        await client.scale(Deployment, "d", "ns", -1)
    with pytest.raises(NotFound):
        await client.scale(Deployment, "e", "ns", 1)


async def test_a_patch_of_the_scale_as_if_it_were_the_object_is_refused_before_anything_is_sent() -> None:
    script = Script()
    with pytest.raises(ValueError, match=r"the scale of a Deployment is no Deployment: use Client\.scale"):
        await client_of(script).patch(Deployment, "d", {"spec": {"replicas": 1}}, namespace="ns", subresource="scale")
    assert not script.requests
