"""The judge tells right from wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bosket.api.kai import SubGroup
from bosket.scheduler.answers.outcome import states, status_name
from bosket.scheduler.decide import decide
from bosket.scheduler.model.decisions import Bind, Decisions, Eviction, Pipeline
from bosket.testing import build
from bosket.testing.cluster import configured, snapshot_of
from tests.conformance import differential, kai
from tests.conformance.__main__ import main
from tests.conformance.deviation import promised_in_vain, without_deviations
from tests.conformance.kai_cluster import NOW, pod_keys, pods_at_first, record
from tests.conformance.ratchet import compare
from tests.conformance.sketch import case, node, pod, pod_group, wanted
from tests.conformance.verdict import Outcome, Verdict


@pytest.mark.parametrize(
    "status",
    ["Pending", "Gated", "Binding", "Bound", "Running", "Releasing", "StuckInReleasing", "Succeeded", "Failed"],
)
def test_a_pod_of_a_case_has_the_state_that_the_case_says(status: str) -> None:
    sketch = case(pod_group("a", pod("a-0", status, "node0")))
    snapshot = record(sketch, pods_at_first(sketch)).snapshot(NOW)
    state = states(snapshot, Decisions())[pod_keys(sketch)["a-0"]]
    assert status_name(state.status) == status


def test_a_case_passes_when_all_that_it_expects_holds() -> None:
    sketch = case(
        pod_group("a", pod("a-0"), pod("a-1"), minimum=2),
        nodes=(node("node0", 1), node("node1", 2)),
        pod_groups={"a": wanted("Binding", gpusRequested=2, cpuMillisRequested=2000)},
        expected_nodes={"node0": {"idleGPUs": 0, "releasingGPUs": 0}},
        pods={"a-1": wanted("Binding", "node1"), "nobody": wanted("Running")},
    )
    assert kai.differences(sketch) == []


@pytest.mark.parametrize(
    ("expectation", "difference"),
    [
        ({"pod_groups": {"a": wanted("Pending")}}, "pod a-0: expected Pending, got Binding on node0"),
        ({"pod_groups": {"a": wanted("Binding", "node1")}}, "pod a-0: expected on node1, got node0"),
        ({"pods": {"a-0": wanted(None, "node1")}}, "pod a-0: expected on node1, got node0"),
        ({"pod_groups": {"a": wanted(None, gpusRequested=2)}}, "pod group a: gpusRequested: expected 2, got 1"),
        ({"expected_nodes": {"node0": {"idleGPUs": 2}}}, "node node0: idleGPUs: expected 2, got 1"),
        ({"calls": {"bind": 0, "evict": 0, "pipeline": 0}}, "bind calls: at most 0, got 1"),
        (
            {"pod_groups": {"a": wanted("Binding", lastStartAgeAtLeastSeconds=60)}},
            "pod group a: last start: expected 60 s ago or more, got now",
        ),
    ],
)
def test_a_case_fails_when_one_expectation_does_not_hold(expectation: dict[str, object], difference: str) -> None:
    assert kai.differences(case(pod_group("a", pod("a-0")), **expectation)) == [difference]  # type: ignore[arg-type]


def test_pods_run_in_the_round_after_they_were_bound() -> None:
    sketch = case(
        pod_group("a", pod("a-0")),
        pod_groups={"a": wanted("Running", "node0", lastStartAgeAtLeastSeconds=60)},
        rounds=(1, 2),
    )
    assert kai.differences(sketch) == []


def test_pods_that_were_going_come_back_as_pending_unless_the_case_keeps_them() -> None:
    running = pod_group("old", pod("old-0", "Releasing", "node0", gpus=2))
    waiting = pod_group("new", pod("new-0", gpus=2))
    came_back = case(running, waiting, pod_groups={"old": wanted("Pending")}, rounds=(1, 0))
    assert kai.differences(came_back) == []
    running["keepReleasingBetweenRounds"] = True
    kept = case(
        running,
        waiting,
        pod_groups={"old": wanted("Releasing"), "new": wanted("Pending")},
        expected_nodes={"node0": {"idleGPUs": 0, "releasingGPUs": 2}},
        rounds=(1, 0),
    )
    assert kai.differences(kept) == []


def test_a_match_after_further_rounds_sees_what_the_round_decided() -> None:
    running = pod_group("old", pod("old-0", "Releasing", "node0", gpus=2), keep_releasing=True)
    sketch = case(running, pod_group("new", pod("new-0", gpus=2)), pods={"new-0": wanted("Pipelined")}, rounds=(1, 1))
    assert kai.differences(sketch) == ["then: pod new-0: expected Pipelined, got Pending"]


ANSWER = {
    "binds": [{"pod": "n/a", "node": "x", "type": "Regular"}],
    "evictions": [{"pod": "n/v", "action": "reclaim", "preemptor": "n/p"}],
    "pipelined": [{"pod": "n/b", "node": "y", "action": "allocate"}],
    "podGroups": {"n/j": {"pods": {"Running": 1}}},
    "fairShare": {"q": {"gpu": 4.0, "cpu": 1000.0, "memory": 5e9}},
}


def test_equal_answers_have_no_differences_whatever_their_order() -> None:
    twice = {**ANSWER, "pipelined": [{"pod": "n/b", "node": "z", "action": "reclaim"}, *ANSWER["pipelined"]]}
    assert list(differential.differences(ANSWER, twice)) == []
    near = {**ANSWER, "fairShare": {"q": {"gpu": 4.00001, "cpu": 1000.0, "memory": 5e9 + 0.1}}}
    assert list(differential.differences(ANSWER, near)) == []


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"binds": []}, "bind of n/a: expected ['x'], got None"),
        ({"evictions": []}, "eviction of n/v: expected [], got None"),
        ({"pipelined": []}, "pipeline of n/b: expected ['y'], got None"),
        ({"podGroups": {}}, "pod group n/j: expected {'pods': {'Running': 1}}, got None"),
        ({"fairShare": {"q": {"gpu": 4.1, "cpu": 1000.0, "memory": 5e9}}}, "fair share of q, gpu: expected 4, got 4.1"),
        (
            {"binds": [{"pod": "n/a", "node": "x", "type": "Fraction"}]},
            "GPUs of bound n/a: expected ['Regular', None, None, None], got ['Fraction', None, None, None]",
        ),
        (
            {"evictions": [{"pod": "n/v", "action": "preempt", "preemptor": "n/p"}]},
            "cause of evicting n/v: expected ['reclaim', 'n/p'], got ['preempt', 'n/p']",
        ),
    ],
)
def test_answers_that_differ_say_where(change: dict[str, object], difference: str) -> None:
    assert difference in list(differential.differences(ANSWER, {**ANSWER, **change}))


def _cycle(expected_evictions: list[dict[str, str]]) -> dict[str, object]:
    """One free node, one running and one waiting pod; KAI evicted one, for reasons of its own."""

    def pod_json(name: str, **spec: str) -> dict[str, object]:
        requests = {"resources": {"requests": {"nvidia.com/gpu": "1"}}}
        return {
            "metadata": {"name": name, "namespace": "n", "uid": name, "annotations": {"pod-group-name": name}},
            "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "m", **requests}], **spec},
            "status": {"phase": "Running" if spec else "Pending"},
        }

    def group(name: str) -> dict[str, object]:
        return {"metadata": {"name": name, "namespace": "n", "uid": name}, "spec": {"queue": "q", "minMember": 1}}

    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    amounts = {"cpu": "8", "memory": "8Gi", "nvidia.com/gpu": "2", "pods": "10"}
    return {
        "id": "sketch/001",
        "family": "sketch",
        "tags": [],
        "snapshot": {
            "config": {"actions": "allocate", "tiers": [{"plugins": [{"name": "predicates"}, {"name": "proportion"}]}]},
            "schedulerParams": {"schedulerName": "kai-scheduler", "fullHierarchyFairness": True},
            "rawObjects": {
                "nodes": [{"metadata": {"name": "x"}, "status": {"allocatable": amounts}}],
                "queues": [
                    {"metadata": {"name": "q"}, "spec": {"resources": {"gpu": free, "cpu": free, "memory": free}}}
                ],
                "podGroups": [group("old"), group("new")],
                "pods": [pod_json("old", nodeName="x"), pod_json("new")],
            },
        },
        "expected": {
            "binds": [],
            "evictions": expected_evictions,
            "pipelined": [{"pod": "n/new", "node": "x", "action": "reclaim"}],
            "podGroups": {},
            "fairShare": {},
        },
    }


def test_an_answer_that_serves_all_and_evicts_fewer_is_better() -> None:
    outcome, differences = differential.judge(_cycle([{"pod": "n/old", "action": "reclaim"}]))
    assert outcome == Outcome.BETTER
    assert differences


def test_an_answer_that_only_differs_is_different() -> None:
    outcome, _ = differential.judge(_cycle([]))
    assert outcome == Outcome.DIFFERENT


@pytest.mark.parametrize(("times", "better"), [(1, False), (2, True)])
def test_an_answer_that_evicts_the_same_pods_fewer_times_is_better(times: int, better: bool) -> None:
    classes = [build.priority_class("low", 10), build.priority_class("high", 50)]
    old, new = build.job("old", on="n1", priority="low"), build.job("new", priority="high")
    snapshot = snapshot_of(build.node("n1", gpus=1), build.queue("q"), classes, old, new)
    evicted = {"pod": "default/old-0", "action": "preempt", "preemptor": "default/new"}
    expected = _answer_with({"default/old": {"pods": {"Releasing": 1}}, "default/new": {"pods": {"Pipelined": 1}}})
    expected |= {"evictions": [evicted] * times, "pipelined": [{"pod": "default/new-0", "node": "n1"}]}
    decisions = decide(snapshot, configured("allocate", "preempt"))
    assert differential._is_better(expected, snapshot, decisions) is better


def test_a_gang_torn_apart_is_noticed() -> None:
    racks = [build.node(f"n{number}", gpus=1, rack=f"r{number}") for number in range(2)]
    group = build.pod_group("g", min_member=2, topology=build.within("t", "rack"))
    snapshot = snapshot_of(racks, build.queue("q"), build.topology("t", "rack"), group, build.gang("g", 2))
    ((key, job),) = snapshot.jobs.items()
    torn = Decisions(tuple(Bind(task, job, f"n{number}") for number, task in enumerate(job.tasks)))
    assert list(differential._broken_rules(snapshot, torn)) == [f"{key}: part as a whole is in 2 domains of rack"]


def test_what_was_broken_before_is_not_held_against_an_answer_and_what_it_adds_is() -> None:
    """The queue holds more than its limit; of the gang one pod is going, and the other one moves."""
    nodes = (build.node("n1", gpus=4), build.node("n2", gpus=4), build.queue("q", limit=0))
    member = build.pod("g-0").gpu(1).of_group("g").running_on("n1")
    pods = [member.build(), replace(member, name="g-1", deletion="2099-01-01T00:00:00Z").build()]
    group = build.pod_group("g", min_member=2, queue="q")
    snapshot = snapshot_of(nodes, group, pods, build.job("new", queue="q"))
    jobs = {job.key.name: job for job in snapshot.jobs.values()}
    (stays, _), (new,) = jobs["g"].tasks, jobs["new"].tasks
    eviction = Eviction(stays, jobs["g"], "n1", "consolidation", None)
    moved = Decisions((eviction, Pipeline(stays, jobs["g"], "n2", "consolidation")))
    assert list(differential._broken_rules(snapshot, moved)) == []
    added = Decisions((Bind(new, jobs["new"], "n2"),))
    assert list(differential._broken_rules(snapshot, added)) == ["queue q is over its limit"]


@pytest.mark.parametrize(("gpus", "in_vain"), [(1, {"default/new-0"}), (2, set())])
def test_a_place_that_two_are_promised_does_not_count(gpus: int, in_vain: set[str]) -> None:
    jobs = (*build.job("moved", on="n2"), *build.job("new"))
    snapshot = snapshot_of(build.node("n1", gpus=gpus), build.node("n2", gpus=1), build.queue("default"), jobs)
    expected = {
        **_answer_with({}),
        "evictions": [{"pod": "default/moved-0"}],
        "pipelined": [{"pod": "default/moved-0", "node": "n1"}, {"pod": "default/new-0", "node": "n1"}],
    }
    assert promised_in_vain(expected, snapshot) == in_vain


def _answer_with(pod_groups: dict[str, object]) -> dict[str, object]:
    return {"binds": [], "evictions": [], "pipelined": [], "fairShare": {}, "podGroups": pod_groups}


def test_a_gang_with_enough_of_its_sub_groups_need_not_be_called_stale() -> None:
    subgroups = (SubGroup(name="a", minMember=1), SubGroup(name="b", minMember=1))
    running = build.pod("g-0").of_group("g", "a").running_on("n1").build()

    def compared(minimum: int) -> tuple[dict[str, Any], dict[str, Any]]:
        group = build.pod_group("g", subgroups=subgroups, min_subgroup=minimum)
        snapshot = snapshot_of(build.node("n1"), build.queue("q"), group, running)
        theirs = _answer_with({"default/g": {"pods": {"Running": 1}, "staleMark": True}})
        ours = _answer_with({"default/g": {"pods": {"Running": 1}}})
        return without_deviations(theirs, ours, snapshot, states(snapshot, Decisions()))

    assert list(differential.differences(*compared(1))) == []
    assert len(list(differential.differences(*compared(2)))) == 1


def test_states_that_no_recorded_decision_accounts_for_are_not_compared() -> None:
    running = build.pod("g-0").of_group("g").running_on("n1").build()
    snapshot = snapshot_of(build.node("n1"), build.queue("q"), build.pod_group("g"), running)
    ours = _answer_with({"default/g": {"pods": {"Running": 1}}})
    left_over = _answer_with({"default/g": {"pods": {"Releasing": 1}}})
    decided = {**left_over, "evictions": [{"pod": "default/g-0", "action": "reclaim"}]}
    ends = states(snapshot, Decisions())
    assert list(differential.differences(*without_deviations(left_over, ours, snapshot, ends))) == []
    assert len(list(differential.differences(*without_deviations(decided, ours, snapshot, ends)))) == 3


@pytest.mark.parametrize(("action", "alike"), [("stalegangeviction", True), ("preempt", False)])
def test_a_stale_gang_may_go_though_kai_takes_it_for_going_already(action: str, alike: bool) -> None:
    running = build.pod("g-0").of_group("g").running_on("n1").build()
    snapshot = snapshot_of(build.node("n1"), build.queue("q"), build.pod_group("g", min_member=2), running)
    going = _answer_with({"default/g": {"pods": {"Releasing": 1}, "stale": True}})
    ours = {**going, "evictions": [{"pod": "default/g-0", "action": action}]}
    ends = states(snapshot, Decisions())
    assert (not list(differential.differences(*without_deviations(going, ours, snapshot, ends)))) is alike


def test_the_ratchet_names_new_failures_and_outdated_allowances() -> None:
    results = [
        Verdict("fails", "g", Outcome.FAILED, ("why",)),
        Verdict("differs", "g", Outcome.DIFFERENT, ("why",)),
        Verdict("fails as known", "g", Outcome.FAILED, ("why",)),
        Verdict("passes", "g", Outcome.PASSED),
        Verdict("passes now", "g", Outcome.SAME),
        Verdict("not there yet", "g", Outcome.NOT_RUN),
    ]
    comparison = compare(results, frozenset({"fails as known", "passes now", "not there yet"}))
    assert [verdict.case for verdict in comparison.unexpected] == ["fails", "differs"]
    assert comparison.outdated == ("passes now",)
    assert not comparison.holds


def _write_cases(folder: Path, *cases: dict[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sketch.json").write_text(json.dumps({"schemaVersion": 1, "cases": cases}))


def test_the_command_ends_with_the_count_and_fails_when_a_case_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = {**case(pod_group("a", pod("a-0")), pod_groups={"a": wanted("Binding")}), "id": "sketch/good/000"}
    bad = {**case(pod_group("a", pod("a-0")), pod_groups={"a": wanted("Pending")}), "id": "sketch/bad/000"}
    _write_cases(tmp_path / "sketch", good, bad)
    (tmp_path / "not cases.json").write_text("[]")
    assert main([str(tmp_path), "-v"]) == 1
    output = capsys.readouterr().out
    assert output.splitlines()[-1] == "1 passed, 1 failed"
    assert "failed sketch/bad/000: pod a-0: expected Pending, got Binding on node0" in output
    assert main([str(tmp_path), "-k", "good"]) == 0
    allowed = tmp_path / "allowed.txt"
    allowed.write_text("sketch/bad/000\n")
    assert main([str(tmp_path), "--allowed", str(allowed)]) == 0
    allowed.write_text("sketch/bad/000\nsketch/good/000\n")
    assert main([str(tmp_path), "--allowed", str(allowed)]) == 1
    assert "passes, and is in the list of allowed failures: sketch/good/000" in capsys.readouterr().out
    assert main([str(tmp_path), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert {each["id"]: each["outcome"] for each in report["cases"]} == {
        "sketch/good/000": "passed",
        "sketch/bad/000": "failed",
    }
    assert main([str(tmp_path / "nowhere")]) == 2


def test_a_case_that_brings_the_scheduler_down_fails_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = {**case(pod_group("a", pod("a-0"))), "id": "sketch/broken/000", "rounds": None}
    good = {**case(pod_group("a", pod("a-0"))), "id": "sketch/good/000"}
    _write_cases(tmp_path, broken, good)
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 1 failed"
