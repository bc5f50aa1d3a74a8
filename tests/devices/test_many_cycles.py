"""Cycle after cycle, with events that are late and out of order between kinds: no device is ever in two hands."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from bosket.api.core.pod import Pod
from bosket.api.kai import BindRequestStatus
from bosket.api.kai.bindrequest import BindRequest
from bosket.api.object import KubeObject
from bosket.api.resource_k8s import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimStatus
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.model.bind_request import bind_request_for
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.testing.build import node, pod, pod_group, queue
from bosket.testing.cluster import NOW, state_of
from bosket.testing.device import device, device_class, device_request, device_slice, made_claims, resource_claim

NODES = {"a": 2, "b": 3}


class World:
    """What the API server has, and a scheduler that hears of it by one stream of events for each kind."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        fixed = [queue("q"), device_class(), *(node(name, gpus=0) for name in NODES)]
        fixed += [
            device_slice(name, *[device(f"d{number}") for number in range(count)]) for name, count in NODES.items()
        ]
        self.state = state_of(fixed)
        self.pods: dict[str, Pod] = {}
        self.claims: dict[str, ResourceClaim] = {}
        self.requests: dict[str, BindRequest] = {}
        self.done: dict[str, Any] = {}
        self.streams: dict[str, deque[tuple[Callable[..., Any], KubeObject]]] = {
            kind: deque() for kind in ("pods", "claims", "requests")
        }
        self.made = self.bound = 0

    def tell(self, kind: str, obj: KubeObject, how: Callable[..., Any] = ClusterState.put) -> None:
        self.streams[kind].append((how, obj))

    def hear(self) -> None:
        """The next event of one of the streams."""
        waiting = [stream for stream in self.streams.values() if stream]
        if waiting:
            how, obj = self.random.choice(waiting).popleft()
            how(self.state, obj)

    def add_pod(self) -> None:
        name = f"p{self.made}"
        self.made += 1
        claim = resource_claim(f"c-{name}", device_request(count=self.random.randint(1, 2)), owner=name)
        spec, statuses = made_claims(device=claim.metadata.name)
        made = pod(name).of_group(name).with_spec(resourceClaims=spec).build()
        made = replace(
            made,
            metadata=replace(made.metadata, uid=name),
            status=replace(made.status, resourceClaimStatuses=statuses),
        )
        self.pods[name], self.claims[name] = made, claim
        self.state.put(pod_group(name, queue="q"))
        self.tell("claims", claim)
        self.tell("pods", made)

    def cycle(self) -> None:
        for bind in decide(self.state.snapshot(NOW), Configuration()).lasting_binds:
            request = bind_request_for(bind)
            self.state.own.assume_bind_request(request)
            request = replace(request, metadata=replace(request.metadata, uid=f"r{self.random.random()}"))
            self.requests[bind.task.key.name] = request
            self.tell("requests", request)

    def bind(self) -> None:
        """The binder carries a request out, or fails."""
        if not self.requests:
            return
        name = self.random.choice(sorted(self.requests))
        request = self.requests.pop(name)
        if name in self.pods and self.random.random() < 0.8:
            given = request.spec.resourceClaimAllocations[0].allocation
            user = ResourceClaimConsumerReference(resource="pods", name=name, uid=name)
            status = ResourceClaimStatus(allocation=given, reservedFor=(user,))
            self.claims[name] = replace(self.claims[name], status=status)
            self.tell("claims", self.claims[name])
            made = self.pods[name]
            spec, phase = replace(made.spec, nodeName=request.spec.selectedNode), replace(made.status, phase="Running")
            self.pods[name] = replace(made, spec=spec, status=phase)
            self.tell("pods", self.pods[name])
            self.bound += 1
            done = replace(request, status=BindRequestStatus(phase="Succeeded"))
            self.done[name] = done  # it goes with its pod
            self.tell("requests", done)
        else:
            self.tell("requests", request, ClusterState.drop)

    def remove_pod(self) -> None:
        ended = [name for name, each in sorted(self.pods.items()) if each.spec.nodeName]
        if ended:
            name = self.random.choice(ended)
            self.tell("pods", self.pods.pop(name), ClusterState.drop)
            self.tell("claims", self.claims.pop(name), ClusterState.drop)
            self.tell("requests", self.done.pop(name), ClusterState.drop)

    def held(self) -> Counter[tuple[str, str]]:
        allocations = (each.status.allocation for each in self.claims.values())
        results = (result for each in allocations if each is not None for result in each.devices.results)
        return Counter((each.pool, each.device) for each in results)


@pytest.mark.parametrize("seed", range(12))
def test_no_device_is_ever_in_two_hands(seed: int) -> None:
    world = World(seed)
    steps = [world.hear] * 6 + [world.cycle] * 2 + [world.bind] * 2 + [world.add_pod, world.remove_pod]
    for _ in range(250):
        world.random.choice(steps)()
        held = world.held()
        assert not held or max(held.values()) == 1, held
    assert world.bound > 5, "next to nothing happened"
