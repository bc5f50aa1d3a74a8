"""Budgets are known before anybody is asked: who may not go isn't chosen, and a cycle takes no more than is allowed."""

from __future__ import annotations

from typing import Any

import msgspec

from bosket.api.core import Pod, PodCondition
from bosket.api.kai.podgroup import PodGroup
from bosket.api.object import KubeObject, LabelSelector, ObjectKey, ObjectMeta
from bosket.api.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import gang, node, pod, pod_group, priority_class, queue
from bosket.testing.cluster import NOW, decided, drop_named, reasons, state_of

KEEP = ObjectKey("default", "keep")


def budget(
    allowed: int, name: str = "keep", app: str = "x", *, generation: int = 1, **status: Any
) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace="default", generation=generation),
        spec=PodDisruptionBudgetSpec(minAvailable=1, selector=LabelSelector(matchLabels={"app": app})),
        status=PodDisruptionBudgetStatus(**{"disruptionsAllowed": allowed, "observedGeneration": 1, **status}),
    )


def guarded(name: str, on: str = "n1", *, app: str = "x", ready: bool = True, group: str | None = None) -> Pod:
    made = pod(name).of_group(group or name).gpu(1).label("app", app).running_on(on).build()
    conditions = (PodCondition(type="Ready", status="True"),) if ready else ()
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, conditions=conditions))


def cluster(*more: KubeObject, jobs: tuple[str, ...] = ("a", "b"), wanted: int = 1) -> list[KubeObject]:
    """Every job has a GPU, all of them `low`; `high` wants some."""
    return [
        node("n1", gpus=len(jobs)),
        queue("q"),
        priority_class("low", 10),
        priority_class("high", 90),
        *(pod_group(name, priority="low") for name in jobs),
        *(guarded(name) for name in jobs),
        pod_group("high", min_member=wanted, priority="high"),
        *gang("high", wanted),
        *more,
    ]


def evicted(decisions: Decisions) -> list[str]:
    return sorted(each.task.key.name for each in decisions.lasting_evictions)


def test_who_has_no_disruptions_left_is_not_chosen_and_the_job_says_why_it_waits() -> None:
    decisions = decided(cluster(budget(0)))
    assert evicted(decisions) == []
    assert "which could make room, is refused by PodDisruptionBudget default/keep" in reasons(decisions)["high"]


def test_another_victim_is_chosen_instead() -> None:
    others = [pod_group("free", priority="low"), guarded("free", app="y")]
    decisions = decided(cluster(budget(0), *others, jobs=("a", "b"))[1:], node("n1", gpus=3))
    assert evicted(decisions) == ["free"]
    assert "PodDisruptionBudget" not in reasons(decisions)["high"]


def test_no_more_are_taken_than_the_budget_allows() -> None:
    assert evicted(decided(cluster(budget(1), wanted=2))) == []
    assert evicted(decided(cluster(budget(2), wanted=2))) == ["a", "b"]


def test_a_cycle_counts_what_it_has_taken_already() -> None:
    """Two jobs, each of which needs one victim; the budget has room for one of them."""
    second = [pod_group("high2", priority="high"), *gang("high2", 1)]
    decisions = decided(cluster(budget(1), *second))
    assert len(evicted(decisions)) == 1
    assert len(evicted(decided(cluster(budget(2), *second)))) == 2


def test_an_eviction_that_the_budget_has_not_counted_yet_counts() -> None:
    state = state_of(cluster(budget(1)))
    state.own.assume_eviction(ObjectKey("default", "a"), "uid-a", NOW)
    assert state.snapshot(NOW).disruptions.allowed == {KEEP: 0}
    state.put(budget(1, disruptedPods={"a": "2026-01-01T00:00:00Z"}))
    assert state.snapshot(NOW).disruptions.allowed == {KEEP: 1}


def test_a_budget_that_nobody_has_counted_for_its_present_spec_allows_nothing() -> None:
    assert evicted(decided(cluster(budget(1, generation=2)))) == []


def test_a_pod_that_two_budgets_guard_can_not_be_evicted() -> None:
    decisions = decided(cluster(budget(5), budget(5, name="too")))
    assert evicted(decisions) == []
    assert "PodDisruptionBudgets default/keep and default/too" in reasons(decisions)["high"]


def test_a_pod_that_is_not_ready_needs_no_permission_while_its_budget_is_met() -> None:
    def unready(made: PodDisruptionBudget) -> list[KubeObject]:
        objects = cluster(made, jobs=("a",))
        return [guarded("a", ready=False) if each.key.name == "a" and each.key.namespace and _is_pod(each) else each
                for each in objects]  # fmt: skip

    assert evicted(decided(unready(budget(0)))) == []
    assert evicted(decided(unready(budget(0, currentHealthy=1, desiredHealthy=1)))) == ["a"]
    always = msgspec.structs.replace(budget(0).spec, unhealthyPodEvictionPolicy="AlwaysAllow")
    assert evicted(decided(unready(msgspec.structs.replace(budget(0), spec=always)))) == ["a"]


def _is_pod(obj: KubeObject) -> bool:
    return type(obj).__name__ == "Pod"


def test_a_gang_goes_as_a_whole_or_not_at_all() -> None:
    """Only one of its two pods is guarded, and that one may not go."""
    gangs = [
        node("n1", gpus=2),
        queue("q"),
        priority_class("low", 10),
        priority_class("high", 90),
        pod_group("g", min_member=2, priority="low"),
        guarded("g-0", group="g"),
        guarded("g-1", group="g", app="y"),
        pod_group("high", priority="high"),
        *gang("high", 1),
    ]
    assert evicted(decided(gangs, budget(0))) == []
    assert evicted(decided(gangs, budget(1))) == ["g-0", "g-1"]


def test_a_gang_that_keeps_an_extra_which_is_guarded_keeps_its_minimum() -> None:
    """Were the other two evicted as a gang of two, the guarded pod would be left alone."""
    members = [guarded("low-0", app="y", group="low"), guarded("low-1", app="y", group="low")]
    decisions = decided(
        [node("n1", gpus=3), queue("q"), priority_class("low", 10), priority_class("high", 90)],
        pod_group("low", min_member=2, priority="low"),
        *members,
        guarded("low-2", group="low"),
        budget(0),
        pod_group("high", min_member=2, priority="high"),
        *gang("high", 2),
    )
    assert evicted(decisions) == []


def test_a_stale_gang_whose_budget_forbids_it_stays_and_says_so() -> None:
    objects = [node("n1", gpus=2), queue("q"), pod_group("g", min_member=2), guarded("g-0", group="g"), budget(0)]
    group = objects[2]
    assert isinstance(group, PodGroup)
    spec = msgspec.structs.replace(group.spec, stalenessGracePeriod="0s")
    objects[2] = msgspec.structs.replace(group, spec=spec)
    decisions = decided(objects)
    (stale,) = decisions.stale
    assert (evicted(decisions), stale.is_due) == ([], True)
    assert str(stale.refused) == (
        "Evicting pod default/g-0, which could make room, is refused by PodDisruptionBudget default/keep"
    )


def test_who_was_refused_is_left_alone_for_a_while_or_until_its_budget_changes() -> None:
    state = state_of(cluster(budget(1), jobs=("a",)))
    where = ObjectKey("default", "a")
    state.own.refuse_eviction(where, "uid-a", NOW, "PodDisruptionBudget default/keep")
    assert evicted(decide(state.snapshot(NOW), Configuration())) == []
    assert evicted(decide(state.snapshot(NOW + 1), Configuration())) == ["a"]
    state.own.refuse_eviction(where, "uid-a", NOW + 1, "PodDisruptionBudget default/keep")
    assert evicted(decide(state.snapshot(NOW + 2), Configuration())) == []
    state.put(budget(2))
    assert evicted(decide(state.snapshot(NOW + 2), Configuration())) == ["a"]


def test_labels_and_budgets_that_come_and_go_are_followed() -> None:
    state = state_of(cluster(budget(0), jobs=("a",)))
    assert state.snapshot(NOW).disruptions.budget_of == {ObjectKey("default", "a"): KEEP}
    state.put(guarded("a", app="y"))
    assert state.snapshot(NOW).disruptions.budget_of == {}
    state.put(guarded("a"))
    drop_named(state, PodDisruptionBudget, KEEP.name)
    assert state.snapshot(NOW).disruptions.budget_of == {}
    state.put(budget(0))
    drop_named(state, Pod, "a")
    assert state.snapshot(NOW).disruptions.budget_of == {}


def test_the_same_word_about_a_budget_changes_nothing() -> None:
    state = state_of(cluster(budget(1)))
    snapshot = state.snapshot(NOW)
    state.put(budget(1))
    assert state.snapshot(NOW) is snapshot


def test_whoever_deletes_pods_asks_no_budget() -> None:
    state = ClusterState(StateOptions(honour_budgets=False))
    for each in cluster(budget(0), jobs=("a",)):
        state.put(each)
    assert evicted(decide(state.snapshot(NOW), Configuration())) == ["a"]
