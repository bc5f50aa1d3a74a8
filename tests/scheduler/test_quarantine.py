"""An exception of `decide` or of a plugin costs what it is about its place in the cycle, and nobody else."""

from __future__ import annotations

import asyncio
import importlib
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from prometheus_client import CollectorRegistry

from bosket.api.kai import BindRequest, PodGroup
from bosket.api.object import KubeObject
from bosket.cli.main import main
from bosket.runtime.service import Environment
from bosket.scheduler import loop
from bosket.scheduler.configuration.configuration import Configuration, PluginChoice
from bosket.scheduler.faults import culprits
from bosket.scheduler.faults.culprits import Suspect, find_culprits, run_through
from bosket.scheduler.faults.failed_snapshots import FailedSnapshots
from bosket.scheduler.faults.partial import LeftOut, without
from bosket.scheduler.faults.quarantine import CHANGED_SECONDS, FIRST_SECONDS, MOST_SECONDS, Quarantine
from bosket.scheduler.framework.session import Session
from bosket.scheduler.io.apply import Applier
from bosket.scheduler.metrics.cycle import SchedulerMetrics
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.options import Options
from bosket.scheduler.recording.recorded import Recorded, load
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import gang, node, pod, pod_group, queue
from bosket.testing.cluster import NOW, decided, placements, snapshot_of, state_of
from tests.noting import noting
from tests.rig import NAMESPACE, make_rig
from tests.scheduler.random_cluster import RandomCluster, clusters

decide_module = importlib.import_module("bosket.scheduler.decide")  # the package has a function of that name

Trouble = Callable[[Session], None]
POISONED = Configuration(plugins=(*Configuration().plugins, PluginChoice("poison")))
FINE = (node("n0"), node("n1"), queue("q"), pod_group("fine", min_member=2), *gang("fine", 2))
BOUND = {"fine-0", "fine-1"}


@pytest.fixture
def trouble(monkeypatch: pytest.MonkeyPatch) -> list[Trouble]:
    """What the plugin `poison` does when a session opens. It counts as somebody else's."""
    doings: list[Trouble] = []

    class Poison:
        def open(self, session: Session) -> None:
            for each in doings:
                each(session)

    monkeypatch.setattr(decide_module, "BUILT_IN", {**decide_module.BUILT_IN, "poison": lambda _: Poison()})
    return doings


def always_fails(session: Session) -> None:
    raise IndexError("whatever there is")


def fails_with_job(*names: str) -> Trouble:
    def order(job: object) -> int:
        if job.job.key.name in names:  # type: ignore[attr-defined]
            raise ValueError(f"{job.job.key.name} is poison")  # type: ignore[attr-defined]
        return 0

    return lambda session: session.extensions.job_order.add(order)


def fails_with_node(name: str) -> Trouble:
    def check(session: Session) -> None:
        if name in session.snapshot.nodes.rows:
            raise KeyError(name)

    return check


def fails_with_queue(name: str) -> Trouble:
    def check(session: Session) -> None:
        if name in session.snapshot.queues.rows:
            raise ZeroDivisionError(name)

    return check


def found(*objects: KubeObject) -> list[Suspect] | None:
    return run_through(find_culprits(snapshot_of(*objects), POISONED))


def file_count(directory: Path) -> int:
    return len(list(directory.iterdir()))


# Who it is


def test_one_job_of_many_is_found(trouble: list[Trouble]) -> None:
    trouble.append(fails_with_job("g7"))
    jobs = [each for number in range(20) for each in (pod_group(f"g{number}"), *gang(f"g{number}", 1))]
    assert found(*FINE, *jobs) == [Suspect("PodGroup", "g7", "default")]


def test_several_jobs_are_found_and_no_others(trouble: list[Trouble]) -> None:
    trouble.append(fails_with_job("g3", "g11", "g12"))
    jobs = [each for number in range(20) for each in (pod_group(f"g{number}"), *gang(f"g{number}", 1))]
    assert {each.name for each in found(*FINE, *jobs) or ()} == {"g3", "g11", "g12"}


def test_a_node_is_found_where_every_job_fails_because_of_it(trouble: list[Trouble]) -> None:
    trouble.append(fails_with_node("n1"))
    assert found(*FINE) == [Suspect("Node", "n1")]


def test_a_job_and_a_node_are_both_found(trouble: list[Trouble]) -> None:
    trouble += [fails_with_node("n1"), fails_with_job("bad")]
    assert sorted(found(*FINE, pod_group("bad"), *gang("bad", 1)) or ()) == [
        Suspect("Node", "n1"),
        Suspect("PodGroup", "bad", "default"),
    ]


def test_a_queue_is_found(trouble: list[Trouble]) -> None:
    trouble.append(fails_with_queue("q2"))
    assert found(*FINE, queue("q2")) == [Suspect("Queue", "q2")]


def test_a_plugin_is_found_that_fails_whatever_there_is(trouble: list[Trouble]) -> None:
    trouble.append(always_fails)
    assert found(*FINE) == [Suspect("Plugin", "poison")]
    assert found() == [Suspect("Plugin", "poison")]


def test_a_plugin_is_found_that_fails_with_every_job(trouble: list[Trouble]) -> None:
    trouble.append(fails_with_job("a", "b", "fine"))
    assert found(*FINE, *(x for n in "ab" for x in (pod_group(n), *gang(n, 1)))) == [Suspect("Plugin", "poison")]


def test_a_plugin_of_ours_is_not_left_out(trouble: list[Trouble], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one, pods would be placed where they may not go."""
    monkeypatch.setattr(culprits, "BUILT_IN", decide_module.BUILT_IN)
    trouble.append(always_fails)
    assert found(*FINE) is None


# What is left out


@given(clusters())
def test_a_cluster_without_nodes_is_decided_on_as_if_they_had_never_been_there(cluster: RandomCluster) -> None:
    """The table, the topologies and the devices of a part are those of a snapshot that never had the rest."""
    objects = cluster.objects()
    gone = frozenset(name for name in (f"n{number}" for number in range(cluster.nodes)) if Random(name).random() < 0.5)
    part = without(snapshot_of(objects), LeftOut(nodes=gone))
    never = snapshot_of([each for each in objects if each.metadata.name not in gone])
    assert part.nodes.names == never.nodes.names
    places = [part.resource_names.index(name) for name in never.resource_names]
    assert (part.nodes.idle[places] == never.nodes.idle).all()
    assert dict(part.nodes.devices.groups) == dict(never.nodes.devices.groups)
    for name, tree in never.topologies.items():
        assert [level.names for level in part.topologies[name].levels] == [level.names for level in tree.levels]
        assert all((a.of_row == b.of_row).all() for a, b in zip(part.topologies[name].levels, tree.levels, strict=True))
    decide_module.decide(part, Configuration())


def test_pods_of_a_job_that_is_left_out_keep_their_place() -> None:
    running = pod("old-0").gpu(8).of_group("old").running_on("n0").build()
    snapshot = snapshot_of(node("n0"), queue("q", quota=0), queue("p", quota=8), pod_group("old"), running,
                           pod_group("new", queue="p"), pod("new-0").gpu(8).of_group("new").build())  # fmt: skip
    assert decide_module.decide(snapshot, Configuration()).evictions
    left = without(snapshot, LeftOut(jobs=frozenset(key for key in snapshot.jobs if key.name == "old")))
    decisions = decide_module.decide(left, Configuration())
    assert not decisions.evictions
    assert not decisions.binds


# Over several cycles


class Story:
    """Cycles of one quarantine over a state, with a count of what `decide` was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *objects: KubeObject) -> None:
        self.state: ClusterState = state_of(objects)
        self.quarantine = Quarantine()
        self.asked = 0
        self.look_again_at = 0.0

        def counting(*args: object, **kwargs: object) -> object:
            self.asked += 1
            return original(*args, **kwargs)

        original = decide_module.decide
        monkeypatch.setattr(culprits, "decide", counting)
        self.count = counting

    async def compute(self, snapshot: Snapshot, configuration: Configuration) -> Decisions:
        decided = self.count(snapshot, configuration)
        assert isinstance(decided, Decisions)
        return decided

    def decide(self, snapshot: Snapshot) -> Decisions:
        return asyncio.run(self.quarantine.decide(snapshot, POISONED, self.compute))[1]

    def cycle(self, after: float = 0.0) -> tuple[set[str], set[str]]:
        """Which pods are bound, and which jobs have the reason that they are left out."""
        for _ in range(3):
            snapshot = replace(self.state.snapshot(NOW + after), now=NOW + after)
            try:
                decisions = self.decide(snapshot)
            except Exception as error:
                if not asyncio.run(self.quarantine.investigate(snapshot, POISONED, error)):
                    break
                continue
            self.look_again_at = decisions.look_again_at - NOW
            reported = {each.job.key.name for each in decisions.waiting if "leaves it out" in each.text}
            return set(placements(decisions)), reported
        raise AssertionError("nothing was decided")


BAD = (pod_group("bad"), *gang("bad", 1))


def test_everything_else_is_scheduled_and_the_job_is_told(
    trouble: list[Trouble], monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble.append(fails_with_job("bad"))
    story = Story(monkeypatch, *FINE, *BAD)
    assert story.cycle() == (BOUND, {"bad"})
    (offender,) = story.quarantine.offenders
    assert "ValueError: bad is poison (test_quarantine.py:" in offender.error


def test_it_is_not_searched_for_again(trouble: list[Trouble], monkeypatch: pytest.MonkeyPatch) -> None:
    trouble.append(fails_with_job("bad"))
    story = Story(monkeypatch, *FINE, *BAD)
    story.cycle()
    story.asked = 0
    assert story.cycle(1.0) == (BOUND, {"bad"})
    assert story.asked == 1
    # When it is due it is tried; that it fails again takes a few trials of it alone, and the next time is later.
    assert story.cycle(FIRST_SECONDS + 1) == (BOUND, {"bad"})
    assert story.asked < 8
    story.asked = 0
    assert story.cycle(2 * FIRST_SECONDS + 5) == (BOUND, {"bad"})
    assert story.asked == 1
    assert story.quarantine.offenders[0].failures == 2


def test_it_is_scheduled_again_when_the_failure_is_gone(
    trouble: list[Trouble], monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble.append(fails_with_job("bad"))
    story = Story(monkeypatch, *FINE, *BAD)
    story.cycle()
    trouble.clear()
    assert story.cycle(1.0) == (BOUND, {"bad"})
    assert story.cycle(FIRST_SECONDS) == (BOUND | {"bad-0"}, set())
    assert story.quarantine.offenders == ()


def test_it_is_tried_again_when_it_changed(trouble: list[Trouble], monkeypatch: pytest.MonkeyPatch) -> None:
    trouble.append(fails_with_job("bad"))
    story = Story(monkeypatch, *FINE, *BAD)
    story.cycle()
    trouble.clear()
    assert story.look_again_at == FIRST_SECONDS
    story.state.put(pod_group("bad", priority="other"))
    assert story.cycle(1.0) == (BOUND, {"bad"})
    assert story.look_again_at == CHANGED_SECONDS
    assert story.cycle(CHANGED_SECONDS) == (BOUND | {"bad-0"}, set())


def test_what_is_gone_is_forgotten(trouble: list[Trouble], monkeypatch: pytest.MonkeyPatch) -> None:
    trouble.append(fails_with_job("bad"))
    story = Story(monkeypatch, *FINE, *BAD)
    story.cycle()
    story.state.drop(BAD[0])
    assert story.cycle(1.0) == (BOUND, set())
    assert story.quarantine.offenders == ()


def test_jobs_of_a_queue_that_is_left_out_are_told(trouble: list[Trouble], monkeypatch: pytest.MonkeyPatch) -> None:
    trouble.append(fails_with_queue("q2"))
    story = Story(monkeypatch, *FINE, queue("q2"), pod_group("other", queue="q2"), *gang("other", 1))
    bound, _ = story.cycle()
    assert bound == BOUND
    decisions = story.decide(story.state.snapshot(NOW))
    (waiting,) = decisions.waiting
    assert "Queue q2 is left out of scheduling, because the scheduler fails with it: ZeroDivisionError" in waiting.text


def test_searches_that_find_nothing_are_not_repeated_at_once(
    trouble: list[Trouble], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(culprits, "BUILT_IN", decide_module.BUILT_IN)
    trouble.append(always_fails)
    story = Story(monkeypatch, *FINE)
    with pytest.raises(AssertionError):
        story.cycle()
    story.asked = 0
    with pytest.raises(AssertionError):
        story.cycle(1.0)
    assert story.asked == 1


def test_a_success_makes_the_next_failure_be_searched_for_at_once(
    trouble: list[Trouble], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(culprits, "BUILT_IN", decide_module.BUILT_IN)
    trouble.append(always_fails)
    story = Story(monkeypatch, *FINE, *BAD)
    with pytest.raises(AssertionError):
        story.cycle()
    trouble.clear()
    assert story.cycle(1.0) == (BOUND | {"bad-0"}, set())
    trouble.append(fails_with_job("bad"))
    assert story.cycle(2.0) == (BOUND, {"bad"})


def test_another_configuration_makes_a_failure_be_searched_for_at_once(
    trouble: list[Trouble], monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble.append(always_fails)
    story = Story(monkeypatch, *FINE)
    with monkeypatch.context() as ours:
        ours.setattr(culprits, "BUILT_IN", decide_module.BUILT_IN)
        with pytest.raises(AssertionError):
            story.cycle()
    with pytest.raises(AssertionError):
        story.cycle(1.0)
    story.quarantine.reconfigure()
    assert story.cycle(2.0) == (BOUND, set())


def test_another_configuration_puts_everything_left_out_on_trial(
    trouble: list[Trouble], monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble.append(fails_with_job("bad"))
    story = Story(monkeypatch, *FINE, *BAD)
    story.cycle()
    trouble.clear()
    assert story.cycle(1.0) == (BOUND, {"bad"})
    story.quarantine.reconfigure()
    assert story.cycle(2.0) == (BOUND | {"bad-0"}, set())


def test_what_fails_now_and_then_keeps_its_count_and_costs_no_search(
    trouble: list[Trouble], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [each for number in range(20) for each in (pod_group(f"g{number}"), *gang(f"g{number}", 1))]
    story, now = Story(monkeypatch, *FINE, *BAD, *jobs), 0.0
    for failures in (1, 2, 3):
        trouble[:] = [fails_with_job("bad")]
        story.asked = 0
        assert story.cycle(now)[1] == {"bad"}
        assert failures == 1 or story.asked < 8
        (offender,) = story.quarantine.offenders
        assert offender.failures == failures
        trouble.clear()
        now = offender.due_at - NOW
        assert story.cycle(now)[1] == set()
        now += 1.0
    trouble[:] = [fails_with_job("bad")]
    story.cycle(now + MOST_SECONDS)
    assert story.quarantine.offenders[0].failures == 1


@pytest.mark.looptime
async def test_a_search_rests_in_real_time_after_every_trial(
    trouble: list[Trouble], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Renewing a lease takes several turns of the loop, and answers of a server in between."""
    trouble.append(fails_with_job("g7"))
    trials = 0

    def counting(*args: Any, **kwargs: Any) -> object:
        nonlocal trials
        trials += 1
        return original(*args, **kwargs)

    original = decide_module.decide
    monkeypatch.setattr(culprits, "decide", counting)
    since_rest: list[int] = []

    async def rest(spent: float) -> None:
        assert spent >= 0
        since_rest.append(trials - sum(since_rest))

    jobs = [each for number in range(20) for each in (pod_group(f"g{number}"), *gang(f"g{number}", 1))]
    assert await Quarantine(rest=rest).investigate(snapshot_of(*FINE, *jobs), POISONED, ValueError())
    assert trials > 5
    assert max(since_rest) == 1
    assert sum(since_rest) == trials


# The running scheduler


@pytest.mark.looptime
async def test_a_search_costs_the_next_cycle_no_time_and_the_file_waits_for_the_retry(
    trouble: list[Trouble], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trouble.append(fails_with_job("bad"))
    happened: list[str] = []
    investigate, keep, apply = Quarantine.investigate, FailedSnapshots.keep, Applier.apply
    elapsed = 0.0

    async def slow(self: Quarantine, *args: Any, **kwargs: Any) -> bool:
        nonlocal elapsed
        elapsed += 30.0
        happened.append("search")
        return await investigate(self, *args, **kwargs)

    async def noted(self: FailedSnapshots, recorded: Recorded) -> Path | None:
        happened.append("keep")
        return await keep(self, recorded)

    async def applied(self: Applier, *args: Any, **kwargs: Any) -> None:
        happened.append("apply")
        await apply(self, *args, **kwargs)

    monkeypatch.setattr(Quarantine, "investigate", slow)
    monkeypatch.setattr(FailedSnapshots, "keep", noted)
    monkeypatch.setattr(Applier, "apply", applied)
    real = time.thread_time
    monkeypatch.setattr(time, "thread_time", lambda: real() + elapsed)
    rests: list[float] = []
    rest = loop.rest_seconds
    monkeypatch.setattr(loop, "rest_seconds", noting(rests, rest, lambda spent, *bounds: spent))
    rig = await make_rig(
        [node("n1"), queue("q"), *(x for name in ("bad", "fine") for x in
         (pod_group(name, namespace=NAMESPACE), *gang(name, 1, namespace=NAMESPACE)))]
    )  # fmt: skip

    async def has_kept() -> bool:
        return "keep" in happened

    options = Options(configuration=POISONED, failed_snapshots=tmp_path)
    async with rig.running(lambda env: loop.service(env, options)):
        await rig.until(has_kept)
        await rig.clock.sleep(5.0)
    assert [each for each in happened if each == "search"] == ["search"]
    assert happened.index("search") < happened.index("apply") < happened.index("keep")
    assert max(rests) < 30.0


@pytest.mark.looptime
async def test_a_snapshot_is_kept_though_no_culprit_is_found_and_once_only(
    trouble: list[Trouble], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(culprits, "BUILT_IN", decide_module.BUILT_IN)
    cycles = 0

    def fails(session: Session) -> None:
        nonlocal cycles
        cycles += 1
        raise IndexError(f"cycle {cycles}")

    trouble.append(fails)
    rig = await make_rig([node("n1"), queue("q")])

    async def has_failed_often() -> bool:
        return cycles > 20

    options = Options(configuration=POISONED, failed_snapshots=tmp_path)
    async with rig.running(lambda env: loop.service(env, options)):
        await rig.until(has_failed_often)
    assert file_count(tmp_path) == 1


@pytest.mark.looptime
async def test_the_loop_goes_on_and_says_what_is_left_out(trouble: list[Trouble], tmp_path: Path) -> None:
    trouble.append(fails_with_job("bad"))
    rig = await make_rig(
        [
            node("n1"), queue("q"),
            pod_group("bad", namespace=NAMESPACE), *gang("bad", 1, namespace=NAMESPACE),
            pod_group("fine", namespace=NAMESPACE), *gang("fine", 1, namespace=NAMESPACE),
        ]
    )  # fmt: skip
    options = Options(configuration=POISONED, failed_snapshots=tmp_path)
    pages = {}

    def scheduler(env: Environment) -> loop.Scheduler:
        made = loop.service(env, options)
        pages["left"] = env.local_pages
        return made

    async def condition() -> str:
        group = await rig.client.get(PodGroup, "bad", NAMESPACE)
        return group.status.schedulingConditions[-1].message if group.status.schedulingConditions else ""

    async def bound() -> set[str]:
        return {each.metadata.name for each in (await rig.client.list(BindRequest, NAMESPACE)).items}

    async with rig.running(scheduler):
        assert await rig.until(bound) == {"fine-0"}
        message = await rig.until(condition)
        events = await rig.until(lambda: rig.events("SchedulerFailed"))
    assert "ValueError: bad is poison" in message
    assert events[0].involvedObject.name == "bad"
    file = FailedSnapshots(tmp_path).newest()
    assert file is not None
    assert [name.metadata.name for name in load(file).objects["podGroups"]] == ["bad", "fine"]


def test_the_metric_names_what_is_left_out() -> None:
    registry = CollectorRegistry()
    metrics = SchedulerMetrics(registry)
    metrics.left_out([Suspect("PodGroup", "bad", "team")])
    labels = {"kind": "PodGroup", "object_namespace": "team", "name": "bad"}
    assert registry.get_sample_value("bosket_scheduler_left_out", labels) == 1
    metrics.left_out([])
    assert registry.get_sample_value("bosket_scheduler_left_out", labels) is None


@pytest.mark.looptime
async def test_one_step_that_fails_keeps_no_other_from_being_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OverflowError

    monkeypatch.setattr(Applier, "_report_pipelined", fail)
    monkeypatch.setattr(Applier, "_note_starts", fail)
    rig = await make_rig(
        [node("n1"), queue("q"), pod_group("fine", namespace=NAMESPACE), *gang("fine", 1, namespace=NAMESPACE)]
    )

    async def bound() -> int:
        return len((await rig.client.list(BindRequest, NAMESPACE)).items)

    async with rig.running(lambda env: loop.service(env, Options(failed_snapshots=None))):
        assert await rig.until(bound) == 1


def test_replay_says_what_the_scheduler_fails_with_and_shows_the_rest(
    trouble: list[Trouble], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decide_module, "known_part", lambda configuration: (configuration, []))
    trouble.append(fails_with_job("bad"))
    file = tmp_path / "failed.zip"
    file.write_bytes(zipped(take(state_of([*FINE, *BAD]), StateOptions(), POISONED, NOW)))
    assert main(["replay", str(file), "--json"]) == 0
    said = capsys.readouterr()
    assert "PodGroup default/bad is left out, because the scheduler fails with it: ValueError" in said.err
    assert {bind["pod"] for bind in json.loads(said.out)["binds"]} == {"default/fine-0", "default/fine-1"}
    trouble[:] = [always_fails]
    monkeypatch.setattr(culprits, "BUILT_IN", decide_module.BUILT_IN)
    assert main(["replay", str(file)]) == 1
    said = capsys.readouterr()
    assert said.err.startswith("bosket: the scheduler fails on this snapshot: IndexError: whatever there is")


# What raised


def test_running_pods_whose_devices_nobody_knows_can_be_evicted_and_stay(trouble: list[Trouble]) -> None:
    """Their labels were removed, and they have no bind request: they are on no device that is known."""
    victims = [pod(f"v-{n}").shares_gpu(0.5).of_group("v").running_on("n0").build() for n in range(2)]
    decisions = decided(
        node("n0", gpus=1), queue("q"), queue("p", quota=2), pod_group("v", min_member=2), *victims,
        pod_group("w", queue="p", min_member=2), *gang("w", 2),
    )  # fmt: skip
    assert not decisions.binds


def test_a_stale_gang_can_go_where_no_node_is_left() -> None:
    since = {"kai.scheduler/stale-podgroup-timestamp": "2020-01-01T00:00:00Z"}
    group = pod_group("v", min_member=2)
    stale = msgspec.structs.replace(group, metadata=msgspec.structs.replace(group.metadata, annotations=since))
    running = pod("v-0").shares_gpu(0.5).of_group("v").running_on("gone").build()
    assert [each.task.key.name for each in decided(queue("q"), stale, running).evictions] == ["v-0"]
