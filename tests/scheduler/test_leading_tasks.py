"""Who leads a training job or a Ray cluster is placed first: the others would have nobody to report to."""

from __future__ import annotations

import pytest

from bosket.scheduler.configuration.configuration import Configuration, PluginChoice
from bosket.testing.build import node, pod, pod_group, queue
from bosket.testing.cluster import decided, placements

KUBEFLOW = "training.kubeflow.org/job-role"
RAY = "ray.io/node-type"


def first_of(label: str, *values: str, configuration: Configuration | None = None) -> set[str]:
    """Which pod of an elastic job gets the only GPU; pods are called by their label's value."""
    pods = [pod(f"{n}-{value}").gpu(1).of_group("g").label(label, value).build() for n, value in enumerate(values)]
    bare = pod("9-bare").gpu(1).of_group("g").build()
    found = decided(node("n", gpus=1), queue("q"), pod_group("g"), [*pods, bare], configuration=configuration)
    return {name.partition("-")[2] for name in placements(found)}


@pytest.mark.parametrize(
    ("label", "values", "first"),
    [
        (KUBEFLOW, ("worker", "master"), "master"),
        (KUBEFLOW, ("worker", "launcher"), "launcher"),
        (KUBEFLOW, ("worker", "ps"), "worker"),
        (RAY, ("worker", "head"), "head"),
        (RAY, ("worker", "master"), "worker"),
    ],
)
def test_the_one_that_leads_goes_first(label: str, values: tuple[str, ...], first: str) -> None:
    assert first_of(label, *values) == {first}


@pytest.mark.parametrize("plugin", ["kubeflow", "ray"])
def test_without_the_plugin_age_and_name_decide(plugin: str) -> None:
    others = tuple(choice for choice in Configuration().plugins if choice.name != plugin)
    without = Configuration(plugins=others)
    label, leader = (KUBEFLOW, "master") if plugin == "kubeflow" else (RAY, "head")
    assert first_of(label, "worker", leader, configuration=without) == {"worker"}
    assert first_of(label, "worker", leader) == {leader}


def test_the_plugins_may_be_configured_by_kais_names() -> None:
    chosen = Configuration(plugins=(PluginChoice("predicates"), PluginChoice("ray")))
    assert first_of(RAY, "worker", "head", configuration=chosen) == {"head"}
