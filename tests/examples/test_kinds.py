"""Every example of a kind runs on the embedded cluster, grouped as its comment says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from bosket.cli.example.document import Manifest, read_example
from bosket.cli.example.progress import Group, wait_until_running
from bosket.cli.example.submission import Submission, definitions_by_kind
from bosket.embedded.cluster import EmbeddedCluster
from bosket.runtime.clock import LoopClock
from bosket.services.podgrouper.table import GROUPERS, WRAPPERS

EXAMPLES = Path(__file__).parents[2] / "examples"
KINDS = EXAMPLES / "kinds"
#: In the folder above: built-in kinds, without an operator.
PLAIN = ("10-gang-job.yaml", "30-deployment.yaml", "40-pod.yaml")


class Seen(NamedTuple):
    """A group, as far as an example is about it."""

    owner: str
    queue: str
    priority: str
    minimum: int
    pods: int
    parts: tuple[tuple[str, int], ...] = ()


def seen(each: Group) -> Seen:
    spec = each.group.spec
    (owner,) = each.group.metadata.ownerReferences
    parts = tuple((part.name, part.minMember) for part in spec.subGroups if part.minMember is not None)
    kind = owner.kind if owner.kind == "Pod" else f"{owner.kind}/{owner.name}"
    return Seen(kind, spec.queue, spec.priorityClassName, each.minimum, len(each.pods), parts)


RAY = (("headgroup", 1), ("gpu", 2))
JOBS = (("driver-replica-0", 1), ("workers-replica-0", 2), ("workers-replica-1", 2))
LLAMA = Seen("LeaderWorkerSet/llama", "team-a", "train", 3, 3, (("leader", 1), ("workers", 2)))
EXPECTED: dict[str, list[Seen]] = {
    "10-gang-job.yaml": [Seen("Job/train-a", "team-a", "train", 4, 4)],
    "30-deployment.yaml": [Seen("Pod", "team-a", "inference", 1, 1)] * 2,
    "40-pod.yaml": [Seen("Pod", "default-queue", "train", 1, 1)],
    "aml-job.yaml": [Seen("AmlJob/bert", "team-a", "train", 2, 2)],
    "argo-workflow.yaml": [
        Seen("Job/etl-transform", "team-a", "train", 2, 2),
        Seen("Pod", "team-a", "train", 1, 1),
    ],
    "cron-job.yaml": [Seen("Job/backup-29000000", "team-b", "train", 1, 1)],
    "dev-workspace.yaml": [Seen("DevWorkspace/ide", "team-b", "build", 1, 1)],
    "dynamo-graph-deployment.yaml": [Seen("Pod", "team-a", "inference", 1, 1)] * 2,
    "jax-job.yaml": [Seen("JAXJob/protein", "team-a", "train", 2, 4)],
    "job-set.yaml": [Seen("JobSet/sweep", "team-a", "train", 5, 5, JOBS)],
    "karta.yaml": [Seen("Simulation/weather", "team-a", "train", 3, 3, (("master", 1), ("worker", 2)))],
    "knative-service.yaml": [Seen("Revision/chat-00001", "team-b", "inference", 2, 2)],
    "leader-worker-set.yaml": [LLAMA, LLAMA],
    "mpi-job.yaml": [Seen("MPIJob/allreduce", "team-a", "train", 3, 3)],
    "notebook.yaml": [Seen("Notebook/lab", "team-b", "build", 1, 1)],
    "pod-clique-set.yaml": [
        Seen("PodGang/serve-0", "team-a", "inference", 3, 3, (("serve-0-prefill", 2), ("serve-0-decode", 1)))
    ],
    "pod-gang-set.yaml": [
        Seen("PodGang/legacy-0", "team-a", "train", 3, 3, (("legacy-0-prefill", 2), ("legacy-0-decode", 1)))
    ],
    "pytorch-job.yaml": [Seen("PyTorchJob/mnist", "team-a", "train", 4, 4, (("master", 1), ("worker", 3)))],
    "ray-cluster.yaml": [Seen("RayCluster/tune", "team-a", "train", 3, 4, RAY)],
    "ray-job.yaml": [Seen("RayJob/score", "team-a", "build-preemptible", 3, 4, RAY)],
    "ray-service.yaml": [Seen("RayService/answers", "team-b", "inference", 3, 4, RAY)],
    "replica-set.yaml": [Seen("ReplicaSet/frontend", "team-b", "train", 1, 2)],
    "run-ai.yaml": [
        Seen("RunaiJob/explore", "team-a", "train", 1, 1),
        *[Seen("Pod", "team-a", "train", 1, 1)] * 5,
    ],
    "scheduled-workflow.yaml": [Seen("ScheduledWorkflow/nightly", "team-a", "train", 1, 2)],
    "seldon-deployment.yaml": [Seen("SeldonDeployment/iris", "team-a", "train", 1, 2)],
    "spark-application.yaml": [Seen("SparkApplication/wordcount", "team-b", "train", 1, 3)],
    "spark.yaml": [Seen("Pod", "team-b", "train", 1, 3)],
    "spot-request.yaml": [Seen("SPOTRequest/stream", "team-a", "inference", 1, 1)],
    "stateful-set.yaml": [Seen("StatefulSet/cache", "team-b", "train", 1, 2)],
    "tekton.yaml": [
        Seen("PipelineRun/release", "team-b", "train", 1, 1),
        Seen("TaskRun/lint", "team-b", "train", 1, 1),
    ],
    "tf-job.yaml": [Seen("TFJob/recommender", "team-a", "train", 5, 5)],
    "train-job.yaml": [Seen("JobSet/finetune", "team-a", "train", 5, 5, JOBS)],
    "virtual-machine-instance.yaml": [Seen("VirtualMachineInstance/desktop", "team-b", "train", 1, 1)],
    "xgboost-job.yaml": [Seen("XGBoostJob/fraud", "team-b", "train", 3, 3)],
}


@pytest.mark.looptime
async def test_every_example_runs_in_the_groups_that_its_kind_stands_for() -> None:
    found = {}
    async with EmbeddedCluster(nodes=16, clock=LoopClock()) as cluster:
        await cluster.wait_ready()
        client = cluster.client()
        definitions = definitions_by_kind(read_example(KINDS / "definitions.yaml"))
        await Submission(client, "default", definitions).define(list(_all_manifests()))
        for queue in read_example(EXAMPLES / "00-queues.yaml"):
            await client.create(queue)
        for file in EXPECTED:
            submission = Submission(client, "default", {})
            for manifest in read_example(_path(file)):
                assert await submission.create(manifest), f"{file}: {manifest['metadata']['name']} was there"
            groups = await wait_until_running(client, submission, 60.0, lambda _text: None)
            found[file] = sorted(map(seen, groups))
    assert found == {file: sorted(groups) for file, groups in EXPECTED.items()}


def test_every_example_is_run() -> None:
    assert {each.name for each in KINDS.glob("*.yaml")} - {"definitions.yaml"} == set(EXPECTED) - set(PLAIN)


def test_every_kind_that_is_grouped_by_a_rule_has_an_example() -> None:
    shown = {_group_kind(each["apiVersion"], each["kind"]) for each in _all_manifests()}
    grouped = {_group_kind(*text.rsplit("/", 1)) for text in (*GROUPERS, *WRAPPERS)}
    assert grouped - shown == set()


def test_no_definition_is_there_in_vain() -> None:
    kinds = {(each["apiVersion"], each["kind"]) for each in _all_manifests()}
    assert set(definitions_by_kind(read_example(KINDS / "definitions.yaml"))) <= kinds


def _all_manifests() -> Iterator[Manifest]:
    for file in EXPECTED:
        yield from read_example(_path(file))


def _path(file: str) -> Path:
    return EXAMPLES / file if file in PLAIN else KINDS / file


def _group_kind(api_version: str, kind: str) -> tuple[str, str]:
    return (api_version.rpartition("/")[0], kind)
