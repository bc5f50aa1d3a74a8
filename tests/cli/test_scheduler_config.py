"""`--scheduler-config` decides how the scheduler decides, and is refused as a whole if a part makes no sense."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bosket.api.core import Container, Pod, PodSpec, ResourceRequirements
from bosket.api.keys import SCHEDULER_NAME
from bosket.api.object import ObjectMeta
from bosket.cli.main import main
from bosket.cli.scheduler_flags import SchedulerFlags, scheduler_options
from bosket.cli.workload_flags import WorkloadFlags
from bosket.embedded.cluster import EmbeddedCluster
from bosket.embedded.node import NodeShape
from bosket.embedded.services import SERVICES
from bosket.runtime.clock import LoopClock
from bosket.scheduler.options import Options

_CONFIGURATION = """
actions: "allocate"
tiers:
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeplacement
    arguments: {{cpu: {strategy}, gpu: {strategy}}}
"""


_PLUGINS = "tiers: [{plugins: [{name: predicates}, {name: oracle}, {name: proportion}]}]"


def _pod(name: str) -> Pod:
    resources = ResourceRequirements(requests={"nvidia.com/gpu": 1}, limits={"nvidia.com/gpu": 1})
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodSpec(
            schedulerName=SCHEDULER_NAME, containers=(Container(name="main", image="i", resources=resources),)
        ),
    )


@pytest.mark.looptime
@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize(("strategy", "nodes_in_use"), [("binpack", 1), ("spread", 3)])
async def test_pods_are_packed_or_spread_as_the_file_says(
    strategy: str, nodes_in_use: int, isolated: bool, tmp_path: Path
) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(_CONFIGURATION.format(strategy=strategy))
    clock = LoopClock()
    options = scheduler_options(file, SchedulerFlags(), WorkloadFlags(), SERVICES)
    async with EmbeddedCluster(
        nodes=3, shape=NodeShape(gpus=4), clock=clock, service_options=options, isolated=isolated
    ) as cluster:
        await cluster.wait_ready()
        client = cluster.client()
        for name in ("a", "b", "c"):
            await client.create(_pod(name))
        async with asyncio.timeout(120):
            while "" in (nodes := {pod.spec.nodeName for pod in (await client.list(Pod, "default")).items}):
                await clock.sleep(0.1)
    assert len(nodes) == nodes_in_use


@pytest.mark.parametrize("command", [["run", "scheduler"], ["up"]])
@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"actions: fly", "actions names 'fly'"),
        (b"actions: [a", "not a YAML document"),
        (b"queueDepthPerAction: {allocate: few}", "queueDepthPerAction.allocate must be a number"),
        (b"scenarioSearchBudgets: {maxJobSearchDuration: -1s}", "maxJobSearchDuration is -1s, it must not be negative"),
        (b"tiers: [{plugins: [{name: nodeplacement, arguments: {gpu: heap}}]}]", "plugin nodeplacement: "),
        (b"usageDBConfig: {clientType: prometheus, connectionString: p:9090}", "connectionString must be the address"),
        (b"usageDBConfig: {clientType: prometheus, connectionStringEnvVar: NOT_SET_X}", "which is not set"),
        (b"actions: \xff", "not UTF-8"),
        (None, "can't read it: No such file or directory"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_before_anything_starts(
    command: list[str], content: bytes | None, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scheduler.yaml"
    if content is not None:
        file.write_bytes(content)
    kubeconfig = tmp_path / "kubeconfig"
    assert main([*command, "--kubeconfig", str(kubeconfig), "--scheduler-config", str(file)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"bosket: --scheduler-config {file}: ")
    assert captured.err.count("\n") == 1
    assert sentence in captured.err


def test_deletion_instead_of_eviction_is_a_switch_of_the_schedulers(capsys: pytest.CaptureFixture[str]) -> None:
    options = scheduler_options(None, SchedulerFlags(evict_by_deletion=True), WorkloadFlags(), SERVICES)["scheduler"]
    assert isinstance(options, Options)
    assert options.evict_by_deletion
    assert main(["run", "binder", "--evict-by-deletion"]) == 2
    assert capsys.readouterr().err.startswith("bosket: --evict-by-deletion: scheduler is not among the services")


def test_what_has_no_effect_is_said_and_the_rest_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text("color: red\nqueueDepthPerAction: {allocate: 7}\n")
    options = scheduler_options(file, SchedulerFlags(), WorkloadFlags(), SERVICES)["scheduler"]
    assert isinstance(options, Options)
    assert options.configuration.queue_depth == {"allocate": 7}
    assert capsys.readouterr().err.startswith(f"bosket: --scheduler-config {file}: color is no key")


@pytest.mark.looptime
async def test_kais_own_default_is_followed_as_far_as_it_goes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(f"actions: allocate, consolidation, reclaim, preempt, stalegangeviction\n{_PLUGINS}")
    clock = LoopClock()
    async with EmbeddedCluster(
        nodes=1, clock=clock, service_options=scheduler_options(file, SchedulerFlags(), WorkloadFlags(), SERVICES)
    ) as cluster:
        await cluster.wait_ready()
        client = cluster.client()
        await client.create(_pod("a"))
        async with asyncio.timeout(120):
            while not (await client.get(Pod, "a", "default")).spec.nodeName:
                await clock.sleep(0.1)
    assert "plugin oracle" in caplog.text


@pytest.mark.parametrize("command", [["run", "binder"], ["up", "--services", "podgrouper,binder"]])
def test_a_configuration_for_a_scheduler_that_does_not_run_is_refused(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--scheduler-config", "scheduler.yaml"]) == 2
    assert "the scheduler is not among the services that run" in capsys.readouterr().err


def test_the_file_may_be_in_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["run", "scheduler", "--scheduler-config=~/missing.yaml"]) == 2
    assert str(tmp_path / "missing.yaml") in capsys.readouterr().err


def test_counting_storage_down_is_a_switch_of_the_schedulers(capsys: pytest.CaptureFixture[str]) -> None:
    options = scheduler_options(None, SchedulerFlags(schedule_csi_storage=True), WorkloadFlags(), SERVICES)["scheduler"]
    assert isinstance(options, Options)
    assert options.configuration.settings.schedule_csi_storage
    assert main(["run", "binder", "--schedule-csi-storage"]) == 2
    assert capsys.readouterr().err.startswith("bosket: --schedule-csi-storage: scheduler is not among the services")
