"""What queues used in the past lowers what they may count on, and is a change of the snapshot only where it matters."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bosket.api.kai.queue import Queue
from bosket.scheduler.configuration.configuration import Configuration, PluginChoice
from bosket.scheduler.decide import decide
from bosket.scheduler.model.usage import InvalidUsage, Usage, usage_from_json
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.testing.build import gang, node, pod, pod_group, queue
from bosket.testing.cluster import NOW, state_of


def gpu_shares(parts: dict[str, float], k: float = 1.0, *queues: Queue, gpus: int = 10) -> dict[str, float]:
    """Fair shares of GPUs where every leaf wants all of them."""
    queues = queues or (queue("a", quota=0), queue("b", quota=0))
    parents = {each.spec.parentQueue for each in queues}
    leaves = [each.metadata.name for each in queues if each.metadata.name not in parents]
    requests = [each for name in leaves for each in (pod_group(name, queue=name), *gang(name, 1, gpus=gpus))]
    state = state_of([node("n", gpus=gpus), *queues, *requests])
    state.put_usage(Usage({name: (used, 0.0, 0.0) for name, used in parts.items()}, NOW))
    configuration = Configuration(plugins=(PluginChoice("proportion", {"kValue": str(k)}),))
    return {name: share[0] for name, share in decide(state.snapshot(NOW), configuration).fair_share.items()}


@pytest.mark.parametrize(
    ("parts", "k", "shares"),
    [
        ({}, 1, {"a": 5, "b": 5}),
        ({"a": 0.8, "b": 0.2}, 1, {"a": 2, "b": 8}),
        ({"a": 0.6, "b": 0.4}, 1, {"a": 4, "b": 6}),
        ({"a": 0.6, "b": 0.4}, 5, {"a": 0, "b": 10}),
        ({"a": 0.6, "b": 0.4}, 0, {"a": 5, "b": 5}),
        ({"a": 0.5, "b": 0.5}, 1, {"a": 5, "b": 5}),
        ({"a": 0.8}, 1, {"a": 2, "b": 8}),
        ({"stranger": 1.0}, 1, {"a": 5, "b": 5}),
    ],
)
def test_the_weight_of_who_used_much_is_lowered_by_k(
    parts: dict[str, float], k: int, shares: Mapping[str, int]
) -> None:
    # 0.5 + k·(0.5 − usage), not below 0, is how strongly a queue pulls; a missing one has used nothing.
    assert gpu_shares(parts, k) == shares


def test_the_quota_of_a_queue_does_not_change() -> None:
    queues = (queue("a", quota=6), queue("b", quota=0))
    assert gpu_shares({"a": 1.0}, 1.0, *queues) == {"a": 6, "b": 4}


def test_of_an_inner_queue_its_own_usage_counts() -> None:
    queues = (
        queue("x", quota=0),
        queue("y", quota=0),
        queue("a", parent="x", quota=0),
        queue("b", parent="x", quota=0),
        queue("c", parent="y", quota=0),
    )
    shares = gpu_shares({"x": 0.6, "y": 0.4, "a": 0.1, "b": 0.5}, 1.0, *queues)
    # Below x: 0.5 + (0.5 − 0.1) to 0.5 + (0.5 − 0.5) of its 4, in whole GPUs.
    assert shares == {"x": 4, "y": 6, "a": 3, "b": 1, "c": 6}


def waiting_state() -> ClusterState:
    return state_of([node("n", gpus=1), queue("q"), pod_group("g"), *gang("g", 2)])


def test_other_usage_is_another_snapshot_while_something_waits() -> None:
    state = waiting_state()
    state.put_usage(Usage({"q": (0.5, 0.0, 0.0)}, NOW))
    before = state.snapshot(NOW)
    state.put_usage(Usage({"q": (0.5, 0.0, 0.0)}, NOW + 60))
    assert state.snapshot(NOW + 60) is before
    state.put_usage(Usage({"q": (0.6, 0.0, 0.0)}, NOW + 120, "here"))
    after = state.snapshot(NOW + 120)
    assert after.usage == Usage({"q": (0.6, 0.0, 0.0)}, NOW + 120, "here")
    assert state.snapshot(NOW + 121) is after


def test_while_nothing_waits_usage_is_no_reason_to_decide() -> None:
    state = state_of([node("n"), queue("q"), pod_group("g"), pod("g-0").gpu(1).of_group("g").running_on("n").build()])
    before = state.snapshot(NOW)
    state.put_usage(Usage({"q": (0.5, 0.0, 0.0)}, NOW))
    assert state.snapshot(NOW + 1) is before
    state.put(pod_group("h"))
    state.put(pod("h-0").gpu(1).of_group("h").build())
    assert state.snapshot(NOW + 2).usage.of("q") == (0.5, 0.0, 0.0)


def test_usage_is_read_from_json() -> None:
    usage = usage_from_json(b'{"a": {"gpu": 0.5, "memory": 1}, "b": {}}', "file")
    assert usage == Usage({"a": (0.5, 0.0, 1.0), "b": (0.0, 0.0, 0.0)}, None, "file")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"{", "not a JSON document: Input data was truncated"),
        (b'{"a": 1}', "[...]: Expected `object`, got `int`"),
        (b'{"a": {"gpus": 1}}', "[...]: Object contains unknown field `gpus`"),
        (b'{"a": {"gpu": -1}}', "a.gpu is -1, it must be a part of the cluster, 0 or more"),
    ],
)
def test_usage_that_can_not_be_read_is_named(text: bytes, complaint: str) -> None:
    with pytest.raises(InvalidUsage) as error:
        usage_from_json(text)
    assert str(error.value).startswith(complaint)
