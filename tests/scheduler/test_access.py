"""Jobs whose queue or priority class isn't for their namespace wait with a reason; all others go on."""

from __future__ import annotations

from typing import TypeVar

import pytest
from msgspec.structs import replace

from bosket.api.core import Namespace
from bosket.api.kai import PodGroup, Queue
from bosket.api.object import KubeObject, ObjectMeta
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.configuration.settings import Settings
from bosket.scheduler.decide import decide
from bosket.scheduler.loop import service
from bosket.scheduler.options import Options
from bosket.scheduler.recording.writer import parameters_of
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import gang, node, pod_group, priority_class, queue
from bosket.testing.cluster import NOW, placements, reasons
from tests.rig import NAMESPACE, make_rig

T = TypeVar("T", bound=KubeObject)
NAMESPACES = "bosket.dev/allowed-namespaces"
SELECTOR = "bosket.dev/namespace-selector"
ON = StateOptions(access_control=True)


def ruled(obj: T, key: str, value: str) -> T:
    return replace(obj, metadata=replace(obj.metadata, annotations={key: value}))


def namespace(name: str, **labels: str) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name, labels=labels))


def cluster(*objects: KubeObject, options: StateOptions = ON) -> ClusterState:
    """A state with one node, and a job of one pod in each of the namespaces a and b."""
    state = ClusterState(options)
    jobs = [
        each
        for name in ("a", "b")
        for each in (pod_group(name, namespace=name), *gang(name, 1, gpus=1, namespace=name))
    ]
    for each in (node("n1"), queue("q"), namespace("a"), namespace("b"), *objects, *jobs):
        state.put(each)
    return state


def outcome(state: ClusterState) -> tuple[set[str], dict[str, str]]:
    decisions = decide(state.snapshot(NOW), Configuration())
    return set(placements(decisions)), reasons(decisions)


def test_a_job_in_a_namespace_that_its_queue_is_not_for_waits_and_is_told_so() -> None:
    placed, why = outcome(cluster(ruled(queue("q"), NAMESPACES, "a")))
    assert placed == {"a-0"}
    assert why == {"b": "PodGroup b/b can't be scheduled: namespace b may not use queue q: it is for namespaces a"}


def test_rules_mean_nothing_while_access_control_is_off() -> None:
    placed, _ = outcome(cluster(ruled(queue("q"), NAMESPACES, "a"), options=StateOptions()))
    assert placed == {"a-0", "b-0"}


def test_rules_of_queues_above_count_and_labels_of_namespaces() -> None:
    top, leaf = ruled(queue("top"), SELECTOR, "team=x"), queue("q", parent="top")
    state = cluster(top, leaf, namespace("b", team="x"))
    placed, why = outcome(state)
    assert placed == {"b-0"}
    assert "may not use queue top: it is for namespaces none by name and those with labels team=x" in why["a"]


def test_a_priority_class_may_be_kept_for_some_namespaces() -> None:
    state = cluster(ruled(priority_class("inference", 125), NAMESPACES, "b"))
    for name in ("a", "b"):
        state.put(pod_group(name, namespace=name, priority="inference"))
    placed, why = outcome(state)
    assert placed == {"b-0"}
    assert "namespace a may not use priority class inference" in why["a"]


def test_a_rule_that_cant_be_read_lets_nobody_in() -> None:
    placed, why = outcome(cluster(ruled(queue("q"), NAMESPACES, "A!")))
    assert placed == set()
    assert "nobody may use queue q while its rule can't be read" in why["a"]


@pytest.mark.parametrize("change", ["queue", "namespace", "class"])
def test_a_change_of_rules_or_labels_is_noticed(change: str) -> None:
    closed = ruled(priority_class("train", 50), SELECTOR, "team=x")
    state = cluster(ruled(queue("q"), SELECTOR, "team=x") if change != "class" else queue("q"), closed)
    if change == "class":
        state.put(pod_group("a", namespace="a", priority="train"))
    assert "a-0" not in outcome(state)[0]
    state.put(
        {
            "queue": ruled(queue("q"), NAMESPACES, "a"),
            "namespace": namespace("a", team="x"),
            "class": ruled(priority_class("train", 50), NAMESPACES, "a"),
        }[change]
    )
    assert "a-0" in outcome(state)[0]


def test_recordings_tell_whether_rules_were_in_force() -> None:
    assert parameters_of(ON, Settings()).state_options().access_control
    assert not parameters_of(StateOptions(), Settings()).state_options().access_control


@pytest.mark.looptime
async def test_the_group_and_its_pods_are_told_by_condition_and_event() -> None:
    closed = ruled(queue("q"), NAMESPACES, "elsewhere")
    own = pod_group("g", min_member=1, namespace=NAMESPACE)
    rig = await make_rig([node("n1"), closed, own, *gang("g", 1, gpus=1, namespace=NAMESPACE)])

    async def conditions() -> object:
        return (await rig.client.get(PodGroup, "g", NAMESPACE)).status.schedulingConditions

    async with rig.running(lambda env: service(env, Options(access_control=True))):
        (condition,) = await rig.until(conditions)
        events = await rig.until(lambda: rig.events("Unschedulable"))
    assert condition.reasons[0].reason == "AccessDenied"
    for message in (condition.reasons[0].message, events[0].message):
        assert f"namespace {NAMESPACE} may not use queue q" in message
    assert isinstance(closed, Queue)
