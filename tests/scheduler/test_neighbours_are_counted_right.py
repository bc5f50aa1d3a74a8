"""Whatever comes, goes, is placed, evicted and undone: counts kept on the way say the same as counting anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api.core import Affinity, Namespace, Pod
from bosket.api.core.affinity import PodAffinity, PodAffinityTerm, PodAntiAffinity, WeightedPodAffinityTerm
from bosket.api.core.node import Node
from bosket.api.object import KubeObject, LabelSelector, ObjectKey, ObjectMeta
from bosket.kube.selector import label_selector
from bosket.scheduler.configuration.configuration import Configuration, PluginChoice
from bosket.scheduler.decide import decide, open_session
from bosket.scheduler.framework import neighbour_view
from bosket.scheduler.framework.neighbour_view import NeighbourView
from bosket.scheduler.framework.statement import Statement
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import Task, TaskStatus
from bosket.scheduler.plugins.counts import Counts
from bosket.testing.build import node, pod, pod_group, queue
from bosket.testing.cluster import NOW, drop_named, placements, reasons, snapshot_of, state_of
from tests.present import present
from tests.scheduler.affinity import HOST, away, near, rather_away, rather_near, spread, term

EVERYWHERE = slice(None)
APPS = ("web", "db")
KEYS = ("zone", HOST)
CONFIGURATION = Configuration(plugins=(PluginChoice("predicates"), PluginChoice("podaffinity")))
#: With scores that don't come out even, so that sums depend on their order.
WITH_SCORES = Configuration(
    plugins=tuple(map(PluginChoice, ("predicates", "nodeavailability", "podaffinity", "resourcetype", "nodeplacement")))
)
HARD_WEIGHT = 1


# A plain count of all pods, node by node, in the words of the Kubernetes documentation


def _selects(wanted: PodAffinityTerm, of: Pod, other: Pod) -> bool:
    namespaces = wanted.namespaces or (of.metadata.namespace,)
    return other.metadata.namespace in namespaces and label_selector(wanted.labelSelector).matches(
        other.metadata.labels
    )


def _required(side: PodAffinity | PodAntiAffinity | None) -> tuple[PodAffinityTerm, ...]:
    return side.requiredDuringSchedulingIgnoredDuringExecution if side else ()


def _preferred(side: PodAffinity | PodAntiAffinity | None) -> tuple[WeightedPodAffinityTerm, ...]:
    return side.preferredDuringSchedulingIgnoredDuringExecution if side else ()


def _affinity(of: Pod) -> Affinity:
    return of.spec.affinity or Affinity()


def _in_domain(nodes: tuple[Node, ...], row: int, key: str, spots: Sequence[tuple[Pod, int]]) -> list[Pod]:
    """Of pods by row: those in the domain of this node."""
    value = nodes[row].metadata.labels.get(key)
    return [] if value is None else [p for p, r in spots if nodes[r].metadata.labels.get(key) == value]


def plainly_objects(
    nodes: tuple[Node, ...], row: int, new: Pod, there: Sequence[tuple[Pod, int]], staying: Sequence[tuple[Pod, int]]
) -> str:
    near_terms = _required(_affinity(new).podAffinity)
    if near_terms:
        wanted = [(p, r) for p, r in there if all(_selects(each, new, p) for each in near_terms)]
        labelled = [each.topologyKey in nodes[row].metadata.labels for each in near_terms]
        counts = any(nodes[r].metadata.labels.get(each.topologyKey) for p, r in wanted for each in near_terms)
        first = not counts and all(_selects(each, new, new) for each in near_terms)
        missing = not all(_in_domain(nodes, row, each.topologyKey, wanted) for each in near_terms)
        if not all(labelled) or (missing and not first):
            return "node(s) didn't match pod affinity rules"
    for each in _required(_affinity(new).podAntiAffinity):
        if any(_selects(each, new, p) for p in _in_domain(nodes, row, each.topologyKey, there)):
            return "node(s) didn't match pod anti-affinity rules"
    for p, r in there:
        for each in _required(_affinity(p).podAntiAffinity):
            if _selects(each, p, new) and _in_domain(nodes, row, each.topologyKey, [(p, r)]):
                return "node(s) didn't satisfy existing pods anti-affinity rules"
    for evenly in new.spec.topologySpreadConstraints:
        if evenly.topologyKey not in nodes[row].metadata.labels:
            return "node(s) didn't match pod topology spread constraints (missing required label)"
        labels = label_selector(evenly.labelSelector)
        counted = [
            n for n in nodes if all(c.topologyKey in n.metadata.labels for c in new.spec.topologySpreadConstraints)
        ]
        domains = {n.metadata.labels[evenly.topologyKey]: 0 for n in counted}
        for p, r in staying:
            if (
                nodes[r] in counted
                and p.metadata.namespace == new.metadata.namespace
                and labels.matches(p.metadata.labels)
            ):
                domains[nodes[r].metadata.labels[evenly.topologyKey]] += 1
        here = domains.get(nodes[row].metadata.labels[evenly.topologyKey], 0)
        if here + labels.matches(new.metadata.labels) - min(domains.values(), default=0) > evenly.maxSkew:
            return "node(s) didn't match pod topology spread constraints"
    return ""


def plain_score(nodes: tuple[Node, ...], row: int, new: Pod, there: Sequence[tuple[Pod, int]]) -> float:
    total = 0

    def weigh(wanted: PodAffinityTerm, weight: int, of: Pod, other: Pod, where: int) -> None:
        nonlocal total
        if _selects(wanted, of, other) and _in_domain(nodes, row, wanted.topologyKey, [(other, where)]):
            total += weight

    for p, r in there:
        for sign, side, theirs in (
            (1, _affinity(new).podAffinity, _affinity(p).podAffinity),
            (-1, _affinity(new).podAntiAffinity, _affinity(p).podAntiAffinity),
        ):
            for each in _preferred(side):
                weigh(each.podAffinityTerm, sign * each.weight, new, p, r)
            for each in _preferred(theirs):
                if _selects(each.podAffinityTerm, p, new) and _in_domain(
                    nodes, row, each.podAffinityTerm.topologyKey, [(p, r)]
                ):
                    total += sign * each.weight
        for required in _required(_affinity(p).podAffinity):
            if _selects(required, p, new) and _in_domain(nodes, row, required.topologyKey, [(p, r)]):
                total += HARD_WEIGHT
    return 1e6 * total


# Clusters and what happens in them


wanted_terms = st.builds(
    lambda by, app, namespaces: term(by, namespaces=namespaces, app=app),
    st.sampled_from(KEYS),
    st.sampled_from(APPS),
    st.sampled_from([(), ("other",), ("default", "other")]),
)
affinities = st.one_of(
    st.none(),
    st.builds(lambda terms: near(*terms), st.lists(wanted_terms, min_size=1, max_size=2)),
    st.builds(lambda terms: away(*terms), st.lists(wanted_terms, min_size=1, max_size=2)),
    st.builds(rather_near, st.integers(1, 9), wanted_terms),
    st.builds(rather_away, st.integers(1, 9), wanted_terms),
)
spreading = st.lists(
    st.builds(
        lambda by, skew, app: spread(by, skew, app=app), st.sampled_from(KEYS), st.integers(1, 2), st.sampled_from(APPS)
    ),
    max_size=2,
    unique_by=lambda each: each.topologyKey,
)


@st.composite
def clusters(draw: st.DrawFn) -> list[KubeObject]:
    zones = draw(st.lists(st.sampled_from(["a", "b", None]), min_size=2, max_size=5))
    objects: list[KubeObject] = [node(f"n{i}", labels={"zone": zone} if zone else None) for i, zone in enumerate(zones)]
    objects.append(queue("q"))
    for number in range(draw(st.integers(2, 7))):
        group = f"g{number}"
        namespace = draw(st.sampled_from(["default", "other"]))
        made = pod(f"{group}-0", namespace).cpu("1").of_group(group).label("app", draw(st.sampled_from(APPS)))
        made = made.with_spec(affinity=draw(affinities), topologySpreadConstraints=tuple(draw(spreading)))
        if draw(st.booleans()):
            made = made.running_on(f"n{draw(st.integers(0, len(zones) - 1))}")
            if draw(st.integers(0, 4)) == 0:
                made = made.being_deleted_at(NOW)
        objects += [pod_group(group, namespace=namespace), made.build()]
    return objects


steps = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 4), st.sampled_from(["go", "go", "go", "undo", "ask"])), max_size=12
)


@given(clusters(), steps)
@settings(max_examples=80, deadline=None)
def test_counts_kept_on_the_way_equal_counting_anew(
    objects: Sequence[KubeObject], happenings: Sequence[tuple[int, int, str]]
) -> None:
    session = open_session(snapshot_of(objects), CONFIGURATION)
    snapshot = session.snapshot
    nodes = snapshot.nodes.nodes
    tasks = [task for key in sorted(snapshot.jobs) for task in snapshot.jobs[key].tasks]
    # By task: where it is or is going to be, and whether it stays there.
    spots = {
        task: [[snapshot.nodes.rows[task.node], task.status != TaskStatus.RELEASING]] if task.node else []
        for task in tasks
    }
    statement = Statement(session)
    past: list[Any] = []

    def compare() -> None:
        there = [(task.pod, row) for task in tasks for row, _ in spots[task]]
        staying = [(task.pod, row) for task in tasks for row, stays in spots[task] if stays]
        for task in tasks:
            codes = np.zeros(len(nodes), dtype=np.int32)
            for each in session.extensions.node_filters:
                if each.concerns(task.pod_class):
                    codes = np.where(codes == 0, each.codes(task.pod_class, EVERYWHERE), codes)
                    for row in range(len(nodes)):
                        alone = each.codes(task.pod_class, np.array([row]))
                        assert alone[0] == each.codes(task.pod_class, EVERYWHERE)[row]
                        assert alone[0] == each.code(task.pod_class, NodeRow(row))
                    refused = set(np.flatnonzero(each.codes(task.pod_class, EVERYWHERE)).tolist())
                    exceptions = each.exceptions(task.pod_class)
                    if exceptions is not None and exceptions.refuses_others:
                        assert set(range(len(nodes))) - set(exceptions.rows.tolist()) <= refused
                    elif exceptions is not None:
                        assert set(exceptions.rows.tolist()) == refused
            found = [session.reason_book.text(int(code)) for code in codes]
            assert found == [plainly_objects(nodes, row, task.pod, there, staying) for row in range(len(nodes))]
            for scorer in session.extensions.node_scores:
                scores = scorer.scores(task.pod_class, EVERYWHERE).tolist()
                assert scores == [plain_score(nodes, row, task.pod, there) for row in range(len(nodes))]
                assert scores == [scorer.score(task.pod_class, NodeRow(row)) for row in range(len(nodes))]
                assert set(np.flatnonzero(scores).tolist()) <= set(present(scorer.exceptions(task.pod_class)).tolist())

    compare()
    for number, where, what in happenings:
        task, row = tasks[number % len(tasks)], where % len(nodes)
        job = session.jobs.state(snapshot.jobs[present(task.group)])
        status, stood_on, _ = job.placement(task)
        if what == "ask":
            compare()
        elif what == "undo":
            if past:
                spots = past.pop()
                statement.rollback(len(past))
        elif status == TaskStatus.PENDING or (status == TaskStatus.RELEASING and task.status != TaskStatus.RELEASING):
            past.append(deepcopy_spots(spots))
            going = next((spot for spot in spots[task] if spot[0] == row and not spot[1]), None)
            if going is not None and row == stood_on:
                going[1] = True
            else:
                spots[task].append([row, True])
            statement.pipeline(job, task, NodeRow(row))
        elif status in (TaskStatus.RUNNING, TaskStatus.PIPELINED) and task not in statement._evicted:
            past.append(deepcopy_spots(spots))
            next(spot for spot in spots[task] if spot[0] == stood_on)[1] = False
            statement.evict(job, task)
    compare()
    statement.discard()
    spots = past[0] if past else spots
    compare()


def deepcopy_spots(spots: Mapping[Task, list[list[int]]]) -> dict[Task, list[list[int]]]:
    return {task: deepcopy(each) for task, each in spots.items()}


@given(clusters(), steps, st.sampled_from([1, 2, 100]))
@settings(max_examples=60, deadline=None)
def test_views_choose_as_if_made_anew(
    objects: Sequence[KubeObject], happenings: Sequence[tuple[int, int, str]], most_scored: int
) -> None:
    """What a view remembers of all nodes, itself or through what it shares with others, is corrected where a placement
    changes it, however far away; also if others have taken the memory for its scores."""
    with patch.object(neighbour_view, "MOST_SCORED", most_scored):
        _choose_as_if_made_anew(objects, happenings)


def _choose_as_if_made_anew(objects: Sequence[KubeObject], happenings: Sequence[tuple[int, int, str]]) -> None:
    session = open_session(snapshot_of(objects), WITH_SCORES)
    snapshot = session.snapshot
    tasks = [task for key in sorted(snapshot.jobs) for task in snapshot.jobs[key].tasks]
    statement = Statement(session)
    count = 0
    for each in tasks:
        session.views.of(each.pod_class).best()
    for number, where, what in happenings:
        task, row = tasks[number % len(tasks)], where % len(snapshot.nodes)
        job = session.jobs.state(snapshot.jobs[present(task.group)])
        if what == "undo" and count:
            count -= 1
            statement.rollback(count)
        elif job.placement(task).status == TaskStatus.PENDING:
            statement.pipeline(job, task, NodeRow(row))
            count += 1
        for each in tasks:
            kept, anew = session.views.of(each.pod_class), session.views.without_base(each.pod_class)
            assert kept.best() == anew.best()
            assert kept.scores.tolist() == anew.scores.tolist()
            assert kept.explain() == anew.explain()


def test_classes_that_differ_in_neighbours_alone_share_a_base() -> None:
    gangs = [f"g{number}" for number in range(5)]
    pods = [
        pod(name).cpu("1").of_group(name).label("app", name).with_spec(affinity=away(term(HOST, app=name)))
        for name in gangs
    ]
    larger = (
        pod("large").cpu("2").of_group("large").label("app", "large").with_spec(affinity=near(term(HOST, app="large")))
    )
    groups = [pod_group(name) for name in (*gangs, "large")]
    session = open_session(
        snapshot_of([node("n"), queue("q"), *groups, *(each.build() for each in (*pods, larger))]), WITH_SCORES
    )
    tasks = [task for job in session.snapshot.jobs.values() for task in job.tasks]
    views = [session.views.of(task.pod_class) for task in tasks]
    assert len(set(views)) == 6
    bases = {
        task.key.name: view._base for task, view in zip(tasks, views, strict=True) if isinstance(view, NeighbourView)
    }
    assert len({bases[name] for name in gangs}) == 1
    assert bases["large"] is not bases["g0"]


@given(st.integers(1, 80), st.lists(st.tuples(st.integers(0, 79), st.integers(-2, 3)), max_size=120))
def test_few_numbers_and_many_count_alike(size: int, changes: Sequence[tuple[int, ...]]) -> None:
    counts, plain = Counts(size), [0] * size
    for number, change in changes:
        place = number % size
        assert counts.add(place, change) == plain[place]
        plain[place] += change
        assert counts[place] == plain[place]
    assert counts.at(EVERYWHERE).tolist() == plain
    assert sorted(counts.indexes().tolist()) == [place for place, number in enumerate(plain) if number]
    assert len(counts) == sum(map(bool, plain))


# The live state


@st.composite
def versions(draw: st.DrawFn) -> ObjectKey | Pod:
    """A pod as it may be at some time: where it is, what it is labelled, whom it wants near; or that it is gone."""
    number = draw(st.integers(0, 4))
    namespace = "other" if number % 2 else "default"
    if draw(st.integers(0, 5)) == 0:
        return ObjectKey(namespace, f"g{number}-0")
    by_team = term("zone", namespaceSelector=LabelSelector(matchLabels={"team": "ml"}), app="web")
    affinity = draw(st.one_of(affinities, st.sampled_from([near(by_team), away(by_team)])))
    made = pod(f"g{number}-0", namespace).cpu("1").of_group(f"g{number}").label("app", draw(st.sampled_from(APPS)))
    made = made.with_spec(affinity=affinity, topologySpreadConstraints=tuple(draw(spreading)))
    if draw(st.booleans()):
        made = made.running_on(draw(st.sampled_from(["a1", "a2", "b1"])))
    return made.build()


namespaces = st.builds(
    lambda name, team: Namespace(metadata=ObjectMeta(name=name, labels={"team": team})),
    st.sampled_from(["default", "other"]),
    st.sampled_from(["ml", "web"]),
)


@given(st.lists(st.one_of(versions(), versions(), namespaces), min_size=1, max_size=15), st.integers(0, 3))
@settings(max_examples=80, deadline=None)
def test_the_live_state_sees_neighbours_as_one_made_anew_does(
    changes: Sequence[Namespace | ObjectKey | Pod], looks: int
) -> None:
    fixed: list[KubeObject] = [node("a1", zone="a"), node("a2", zone="a"), node("b1", zone="b"), queue("q")]
    fixed += [pod_group(f"g{i}", namespace="other" if i % 2 else "default") for i in range(5)]
    state, now = state_of(fixed), dict[Any, Any]()
    for number, change in enumerate(changes):
        if isinstance(change, ObjectKey):
            now.pop((Pod, change), None)
            drop_named(state, Pod, change.name, change.namespace)
        else:
            now[type(change), change.key] = change
            state.put(change)
        if number % (looks + 1) == 0:
            state.snapshot(NOW)
    grown, anew = state.snapshot(NOW), snapshot_of(fixed, list(now.values()))
    assert outcome(grown) == outcome(anew)
    assert sorted(map(sum_of, grown.match_counts.values())) == sorted(map(sum_of, anew.match_counts.values()))
    assert grown.has_match_keys == anew.has_match_keys


def outcome(snapshot: Snapshot) -> tuple[dict[str, str], ...]:
    decisions = decide(snapshot, CONFIGURATION)
    return placements(decisions), reasons(decisions)


def sum_of(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items())
