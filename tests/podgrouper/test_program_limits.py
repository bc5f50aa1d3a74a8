"""jq programs come from objects in the cluster: what they may take, and what happens to those who take more."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bosket.api.core import Event
from bosket.api.object import OwnerReference
from bosket.api.resource import Resource
from bosket.runtime.clock import LoopClock
from bosket.services.podgrouper.jq_evaluator import JqEvaluator
from bosket.services.podgrouper.jq_process import JqProcess, WorkerClosed
from bosket.services.podgrouper.program import Programs
from tests.podgrouper.scene import grouped, grouper, make_gang, make_pod, scene
from tests.podgrouper.sketch import owner, pod
from tests.podgrouper.test_kartas import LABELS, ONE
from tests.rig import NAMESPACE

pytestmark = pytest.mark.slow

OBJECT = b'{"a": 1}'


@pytest.fixture
def process() -> Iterator[JqProcess]:
    with contextlib.closing(JqProcess()) as started:
        yield started


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("def f: f; f", "takes more than 1 s of CPU time"),
        ("def f: [f]; f", "takes more than 256 MiB of memory"),
        ('"x" * 1e9', "takes more than 256 MiB of memory"),
        ('[limit(100000; repeat("x" * 10000))]', "takes more than 256 MiB of memory"),
        ("repeat(1)", "gives more than 10000 results or 64 KiB"),
        ('"x" * 70000', "gives more than 10000 results or 64 KiB"),
    ],
)
def test_a_program_that_takes_too_much_is_stopped_and_named(process: JqProcess, program: str, reason: str) -> None:
    before, stopped = process.run(OBJECT, [".a", program])
    assert (before.results, stopped.outcome, stopped.error) == ((1,), "exceeded", f'"{program}" {reason}')
    assert process.run(OBJECT, [".a"])[0].results == (1,), "the next one finds a worker that works"


def test_after_a_program_that_was_stopped_the_rest_of_its_batch_is_not_run(process: JqProcess) -> None:
    answers = process.run(OBJECT, ["def f: f; f", *(f"{number} | until(false; .)" for number in range(100))])
    assert {each.outcome for each in answers} == {"exceeded"}
    assert process.starts == 1


@pytest.mark.parametrize("program", ["env", "$ENV", "env.SECRET // {}", "$ENV.SECRET // {}"])
def test_programs_see_no_environment(process: JqProcess, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s3cret")
    assert process.run(OBJECT, [program])[0].results == ({},)


@pytest.mark.parametrize(
    "program",
    [
        'import "secret" as $secret {{search: "{folder}"}}; $secret',
        'import "code" as code {{search: "{folder}"}}; code::f',
        'include "code" {{search: "{folder}"}}; f',
    ],
)
def test_programs_read_no_files(process: JqProcess, program: str, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('"s3cret"')
    (tmp_path / "code.jq").write_text('def f: "s3cret";')
    (answer,) = process.run(OBJECT, [program.format(folder=tmp_path)])
    assert (answer.outcome, answer.results) == ("invalid", ())


@pytest.mark.parametrize("program", ["input", "[inputs]", '"x" | halt_error', "halt", "debug", "stderr"])
def test_programs_neither_read_nor_write_what_the_worker_speaks_through(process: JqProcess, program: str) -> None:
    (answer,) = process.run(OBJECT, [f"({program}) | empty"])
    assert answer.results == ()
    assert process.run(OBJECT, [".a"])[0].results == (1,)
    assert process.starts == 1


def test_a_worker_that_hangs_is_killed() -> None:
    """By wall-clock time: a process that gets no CPU time isn't ended by a limit of it."""
    with contextlib.closing(JqProcess(wall_seconds=0.2)) as process:
        (answer,) = process.run(OBJECT, ["def f: f; f"])
        assert answer.error == '"def f: f; f" takes more than 0.2 s, or more memory than there is'


def test_a_closed_process_starts_no_other() -> None:
    process = JqProcess()
    process.close()
    with pytest.raises(WorkerClosed):
        process.run(OBJECT, ["."])


@pytest.mark.parametrize(("program", "outcome"), [("error(.long)", "failed"), (f"{'(' * 60_000}", "invalid")])
def test_what_a_program_fails_with_is_cut_and_counts_as_memory(process: JqProcess, program: str, outcome: str) -> None:
    (answer,) = process.run(json.dumps({"long": "x" * 1_000_000}).encode(), [program])
    assert answer.outcome == outcome
    assert len(answer.error) <= 1_010
    assert answer.characters >= len(answer.error)


# --- what is remembered

FLOW = owner("example.com/v1/Flow", "f", spec={"size": 3})
SIZE = Programs((".spec.size",), (".metadata.name",))


def versioned(version: str, namespace: str = "team-a") -> Any:
    content = {**FLOW.content, "metadata": {**FLOW.content["metadata"], "resourceVersion": version}}
    content["metadata"]["namespace"] = namespace
    return type(FLOW).untyped(FLOW.gvk, content)


async def test_answers_are_found_once_for_each_version_of_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[tuple[bytes, list[str]]] = []
    run = JqProcess.run

    def counted(self: JqProcess, content: bytes, programs: Any) -> Any:
        batches.append((content, list(programs)))
        return run(self, content, programs)

    monkeypatch.setattr(JqProcess, "run", counted)
    with contextlib.closing(JqEvaluator(LoopClock())) as evaluator:
        pods = [pod(f"p{number}", FLOW) for number in range(20)]
        found = await asyncio.gather(*(evaluator.answers(SIZE, versioned("1"), each) for each in pods))
        assert {each.of_workload[".spec.size"].results for each in found} == {(3,)}
        assert {each.of_pod[".metadata.name"].results for each in found} == {(each.metadata.name,) for each in pods}
        assert len([each for each in batches if each[1] == [".spec.size"]]) == 1
        await evaluator.answers(SIZE, versioned("2"), pods[0])
        assert len([each for each in batches if each[1] == [".spec.size"]]) == 2


@pytest.mark.looptime
async def test_a_program_that_was_stopped_is_run_again_after_a_while_and_at_once_in_other_namespaces() -> None:
    """An object on which a program takes too long costs its own namespace the Karta, and nobody else."""
    programs = Programs(("if .spec.bomb then def f: f; f else 1 end",), ())
    bomb, good, elsewhere = versioned("1"), versioned("2"), versioned("3", "team-b")
    bomb.content["spec"] = {"bomb": True}
    clock = LoopClock()

    async def outcome(workload: Any) -> str:
        found = await evaluator.answers(programs, workload, pod("p", FLOW))
        return found.all[0].outcome

    with contextlib.closing(JqEvaluator(clock)) as evaluator:
        first, turns = asyncio.create_task(outcome(bomb)), 0
        while not first.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns > 1000, "the loop goes on while a program runs"
        assert [await outcome(each) for each in (bomb, good, elsewhere)] == ["exceeded", "exceeded", "results"]
        await clock.sleep(31)
        assert await outcome(good) == "results"


# --- what a cluster's users see


def crd(group: str, kind: str, version: str) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


async def test_other_workloads_go_on_and_the_karta_is_told_of_while_one_of_its_programs_never_ends() -> None:
    rig = await scene()
    for each in (crd("run.ai", "Karta", "v1alpha1"), crd("example.com", "Flow", "v1")):
        await rig.client.create(each)
    content = json.loads(json.dumps(ONE))
    content["structureDefinition"]["childComponents"][0]["scaleDefinition"]["replicasPath"] = "def f: f; f"
    metadata = {"name": "flow", "namespace": NAMESPACE, "labels": LABELS}
    kartas: Resource[dict[str, Any]] = Resource("run.ai", "v1alpha1", "Karta", "kartas", dict)
    flows: Resource[dict[str, Any]] = Resource("example.com", "v1", "Flow", "flows", dict)
    await rig.client.create(
        {"apiVersion": "run.ai/v1alpha1", "kind": "Karta", "metadata": metadata, "spec": content}, kind=kartas
    )
    flow = await rig.client.create(
        {"apiVersion": "example.com/v1", "kind": "Flow", "metadata": {"name": "f", "namespace": NAMESPACE}}, kind=flows
    )
    reference = OwnerReference(apiVersion="example.com/v1", kind="Flow", name="f", uid=flow["metadata"]["uid"])
    await make_pod(rig, "worker", reference, role="worker")
    told: list[Event] = []

    async def karta_event() -> list[Event]:
        told[:] = [each for each in await rig.events("PodGrouperWarning") if each.involvedObject.kind == "Karta"]
        return told

    async with rig.running(grouper):
        await grouped(rig, await make_gang(rig, 3))
        await rig.until(karta_event)
    expected = 'Karta flow: "def f: f; f" takes more than 1 s of CPU time'
    assert (told[0].involvedObject.name, told[0].message) == ("flow", expected)
