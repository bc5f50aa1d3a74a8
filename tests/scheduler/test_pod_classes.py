"""Pods are put into classes by what tells them apart, whatever they are compared with on the way."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api.core import ContainerPort, EnvVar, PodSpec, Volume
from bosket.api.core.pod import Pod
from bosket.api.object import ObjectKey
from bosket.scheduler.model.resource import ResourceAxis
from bosket.scheduler.state import pod_classes
from bosket.scheduler.state.pod_classes import PodClasses
from bosket.testing.build import gang, node, pod, pod_group, queue
from bosket.testing.cluster import NOW, state_of


def annotated(made: Pod, **annotations: str) -> Pod:
    annotations = {f"{name.replace('_', '-')}": value for name, value in annotations.items()}
    return msgspec.structs.replace(
        made,
        metadata=msgspec.structs.replace(made.metadata, annotations={**made.metadata.annotations, **annotations}),
    )


#: By what the scheduler sees of them: a name, and a pod.
PODS = (
    ("plain", lambda made: made.gpu(1).build()),
    ("plain", lambda made: made.gpu(1).running_on("n1").build()),
    ("larger", lambda made: made.gpu(2).build()),
    ("refers", lambda made: made.gpu(1).with_spec(volumes=(Volume(name="scratch"),)).build()),
    ("refers", lambda made: made.gpu(1).with_container(env=(EnvVar(name="RANK", value="0"),)).build()),
    ("port", lambda made: made.gpu(1).with_container(ports=(ContainerPort(containerPort=80, hostPort=80),)).build()),
    ("nominated", lambda made: made.gpu(1).nominated_to("n1").build()),
    ("zone", lambda made: made.gpu(1).only_on("zone", "a").build()),
    ("spot", lambda made: made.gpu(1).tolerates("spot").build()),
    ("overhead", lambda made: made.gpu(1).with_spec(overhead={"cpu": "100m"}).build()),
    ("fraction", lambda made: annotated(made.build(), gpu_fraction="0.5")),
)


@given(st.lists(st.sampled_from(PODS), min_size=2, max_size=12))
@settings(max_examples=200, deadline=None)
def test_two_pods_have_the_same_class_exactly_if_nothing_tells_them_apart(
    shown: Sequence[tuple[str, Callable[..., Any]]],
) -> None:
    """In whichever order they are shown: each is compared with the one before it."""
    classes = PodClasses(ResourceAxis())
    found = [(name, classes.of(make(pod(f"p-{number}")), None)) for number, (name, make) in enumerate(shown)]
    for name, left in found:
        for other, right in found:
            assert (left is right) == (name == other)


def test_what_a_gang_asks_for_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    real = pod_classes.sorted_request  # type: ignore[attr-defined]

    def noted(spec: PodSpec) -> Any:
        asked.append(spec)
        return real(spec)

    monkeypatch.setattr(pod_classes, "sorted_request", noted)
    state = state_of([node("n1"), queue("q"), pod_group("g"), *gang("g", 8)])
    (only,) = state.snapshot(NOW).jobs[ObjectKey("default", "g")].pod_sets
    assert only.only_class is not None
    assert len(asked) == 1


def test_demands_on_nodes_that_nobody_has_any_more_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bosket.scheduler.state.pod_classes.MOST_FIXED", 10)
    classes = PodClasses(ResourceAxis())
    numbers = [classes.of(pod("p").only_on("zone", str(number)).build(), None).fixed_index for number in range(100)]
    assert len(set(numbers)) == 100
    assert len(classes._fixed_numbers) <= 10
