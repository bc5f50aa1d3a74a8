"""Workloads of every kind come to the pods and groups that the cluster makes of them.

The examples say what operators make of a workload. With all of it in the file, the groups must be those that the
embedded cluster has made of the same files (`tests/examples`); with the workload alone, the pods must come out of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from bosket.api.core import Pod
from bosket.api.kai import PodGroup
from bosket.api.keys import POD_GROUP_ANNOTATION
from bosket.api.object import KubeObject
from bosket.cli.example.document import read_example
from bosket.cli.example.progress import Group
from bosket.scheduler.answers.cluster import Cluster
from bosket.scheduler.answers.draft import Draft
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.recording.recorded import read
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.options import StateOptions
from bosket.services.podgrouper.table import GROUPERS, WRAPPERS
from bosket.testing.build import node, priority_class, queue
from bosket.testing.cluster import NOW, state_of
from bosket.tools.expansion.expand import expand
from bosket.tools.expansion.item import ExpansionError
from bosket.tools.expansion.manifests import Manifest
from bosket.tools.expansion.rules import GROUPED, RULES
from bosket.tools.expansion.submission import submit
from tests.examples.test_kinds import EXPECTED, KINDS, _path, seen

Document = dict[str, Any]
PRIORITIES = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
#: What pods of one container ask for.
CONTAINERS = [{"name": "main", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]
TEMPLATE: dict[str, Document] = {"spec": {"schedulerName": "kai-scheduler", "containers": CONTAINERS}}


def empty_cluster() -> Cluster:
    objects: list[KubeObject] = [
        node("n1"),
        *map(queue, ("team-a", "team-b", "default-queue")),
        *(priority_class(name, value) for name, value in PRIORITIES.items()),
    ]
    return Cluster(read(zipped(take(state_of(objects), StateOptions(), Configuration(), NOW))))


def groups_of(documents: Iterable[Document]) -> list[Group]:
    """The groups of these objects, with their pods."""
    draft = Draft(empty_cluster())
    asyncio.run(submit(draft, [Manifest(each, "the test") for each in documents], "default"))
    pods = list(draft.objects(Pod))
    return [
        Group(group, members)
        for group in draft.objects(PodGroup)
        if (
            members := [
                pod for pod in pods if pod.metadata.annotations.get(POD_GROUP_ANNOTATION) == group.metadata.name
            ]
        )
    ]


@pytest.mark.parametrize("file", sorted(EXPECTED))
def test_a_file_comes_to_the_groups_that_the_cluster_makes_of_it(file: str) -> None:
    assert sorted(map(seen, groups_of(read_example(_path(file))))) == sorted(EXPECTED[file])


@pytest.mark.parametrize(
    "file",
    [
        "jax-job.yaml", "mpi-job.yaml", "notebook.yaml", "pod-clique-set.yaml", "pytorch-job.yaml", "ray-cluster.yaml",
        "replica-set.yaml", "stateful-set.yaml", "tf-job.yaml", "xgboost-job.yaml",
    ],
)  # fmt: skip
def test_the_workload_alone_comes_to_the_same_groups(file: str) -> None:
    workload = read_example(_path(file))[0]
    assert sorted(map(seen, groups_of([workload]))) == sorted(EXPECTED[file])


def with_spec(api_version: str, kind: str, spec: Document, **metadata: Any) -> Document:
    labels = {"kai.scheduler/queue": "team-a"}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "w", "labels": labels, **metadata},
        "spec": spec,
    }


RAY = {
    "headGroupSpec": {"template": TEMPLATE},
    "workerGroupSpecs": [{"groupName": "gpu", "replicas": 2, "numOfHosts": 2, "template": TEMPLATE}],
}
NEVER = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
JOB_SET = {
    "replicatedJobs": [
        {"name": "driver", "replicas": 1, "template": {"spec": {"template": NEVER}}},
        {"name": "node", "replicas": 2, "template": {"spec": {"parallelism": 2, "template": NEVER}}},
    ]
}
#: A runtime, and what asks for it.
TRAIN_JOB = [
    {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "torch"},
        "spec": {"template": {"spec": JOB_SET}},
    },
    with_spec(
        "trainer.kubeflow.org/v1alpha1",
        "TrainJob",
        {
            "runtimeRef": {"name": "torch"},
            "trainer": {"numNodes": 3, "resourcesPerNode": {"limits": {"nvidia.com/gpu": "1"}}},
        },
    ),
]
#: By case: the workload, and of each of its groups minimum and pods.
ALONE: dict[str, tuple[Document, list[tuple[int, int]]]] = {
    "a Job runs as many pods as are to complete": (
        with_spec("batch/v1", "Job", {"parallelism": 4, "completions": 3, "template": NEVER}), [(1, 3)],
    ),
    "a Job's annotation makes it a gang": (
        with_spec(
            "batch/v1", "Job", {"parallelism": 4, "template": NEVER},
            annotations={"kai.scheduler/batch-min-member": "4"},
        ), [(4, 4)],
    ),
    "a suspended Job has no pods": (with_spec("batch/v1", "Job", {"suspend": True, "template": NEVER}), []),
    "a CronJob is its next run": (
        with_spec("batch/v1", "CronJob", {"schedule": "0 4 * * *", "jobTemplate": {"spec": {"template": NEVER}}}),
        [(1, 1)],
    ),
    "a Deployment's pods are groups of their own": (
        with_spec("apps/v1", "Deployment", {"replicas": 2, "template": TEMPLATE}), [(1, 1), (1, 1)],
    ),
    "a JobSet's Jobs have their pods": (with_spec("jobset.x-k8s.io/v1alpha2", "JobSet", JOB_SET), [(5, 5)]),
    "a LeaderWorkerSet's replicas are gangs": (
        with_spec(
            "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet",
            {"replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": TEMPLATE}},
        ), [(3, 3), (3, 3)],
    ),
    "a RayJob's cluster is made for it": (with_spec("ray.io/v1", "RayJob", {"rayClusterSpec": RAY}), [(5, 5)]),
    "a RayService's, too": (with_spec("ray.io/v1", "RayService", {"rayClusterConfig": RAY}), [(5, 5)]),
    "a Knative service begins with its smallest scale": (
        with_spec(
            "serving.knative.dev/v1", "Service",
            {"template": {**TEMPLATE, "metadata": {"annotations": {"autoscaling.knative.dev/min-scale": "2"}}}},
        ), [(2, 2)],
    ),
    "a Spark application is a driver with executors": (
        with_spec(
            "sparkoperator.k8s.io/v1beta2", "SparkApplication",
            {
                "driver": {"cores": 1, "schedulerName": "kai-scheduler"},
                "executor": {"instances": 2, "memory": "4g", "schedulerName": "kai-scheduler"},
            },
        ), [(1, 3)],
    ),
    "a workflow begins with the steps that depend on none": (
        with_spec(
            "argoproj.io/v1alpha1", "Workflow",
            {
                "entrypoint": "main", "schedulerName": "kai-scheduler",
                "templates": [
                    {"name": "main", "dag": {"tasks": [
                        {"name": "a", "template": "step"}, {"name": "b", "template": "step"},
                        {"name": "c", "template": "step", "dependencies": ["a", "b"]},
                    ]}},
                    {"name": "step", "container": CONTAINERS[0]},
                ],
            },
        ), [(1, 1), (1, 1)],
    ),
    "a run of a workflow on schedule is the workflow": (
        with_spec(
            "kubeflow.org/v1alpha1", "ScheduledWorkflow",
            {"workflow": {"spec": {
                "entrypoint": "main", "schedulerName": "kai-scheduler",
                "templates": [
                    {"name": "main", "steps": [[{"name": "a", "template": "s"}], [{"name": "b", "template": "s"}]]},
                    {"name": "s", "container": CONTAINERS[0]},
                ],
            }}},
        ), [(1, 1)],
    ),
    "a pipeline begins with the tasks that come after none": (
        with_spec(
            "tekton.dev/v1", "PipelineRun",
            {
                "taskRunTemplate": {"podTemplate": {"schedulerName": "kai-scheduler"}},
                "pipelineSpec": {"tasks": [
                    {"name": "a", "taskSpec": {"steps": [{"image": "i"}]}},
                    {"name": "b", "taskSpec": {"steps": [{"image": "i"}]}, "runAfter": ["a"]},
                ]},
            },
        ), [(1, 1)],
    ),
    "a virtual machine's devices are its pod's resources": (
        with_spec(
            "kubevirt.io/v1", "VirtualMachineInstance",
            {
                "schedulerName": "kai-scheduler",
                "domain": {"memory": {"guest": "4Gi"}, "devices": {"gpus": [{"deviceName": "nvidia.com/gpu"}]}},
            },
        ), [(1, 1)],
    ),
    "a workspace is a pod": (
        with_spec(
            "workspace.devfile.io/v1alpha2", "DevWorkspace",
            {"template": {
                "attributes": {"pod-overrides": {"spec": {"schedulerName": "kai-scheduler"}}},
                "components": [{"name": "tools", "container": {"image": "i", "memoryLimit": "2Gi"}}],
            }},
        ), [(1, 1)],
    ),
    "a Seldon deployment has its components' pods": (
        with_spec(
            "machinelearning.seldon.io/v1", "SeldonDeployment",
            {"predictors": [{"name": "default", "replicas": 2, "componentSpecs": [TEMPLATE]}]},
        ), [(1, 2)],
    ),
    "a Dynamo graph has its services' pods": (
        with_spec(
            "nvidia.com/v1alpha1", "DynamoGraphDeployment",
            {"services": {"Worker": {
                "replicas": 2, "resources": {"limits": {"gpu": "1"}},
                "extraPodSpec": {"schedulerName": "kai-scheduler", "mainContainer": {"image": "i"}},
            }}},
        ), [(1, 1), (1, 1)],
    ),
    "a run:ai job has its template's pods": (
        with_spec("run.ai/v1", "RunaiJob", {"parallelism": 2, "template": TEMPLATE}), [(1, 1), (1, 1)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ALONE)
def test_a_workload_comes_to_its_pods(case: str) -> None:
    workload, expected = ALONE[case]
    assert [(each.minimum, len(each.pods)) for each in groups_of([workload])] == expected


def test_a_train_job_follows_the_runtime_in_the_files() -> None:
    runtime = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "torch"},
        "spec": {"template": {"spec": JOB_SET}},
    }
    spec = {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 3}}
    job = with_spec("trainer.kubeflow.org/v1alpha1", "TrainJob", spec)
    assert [(each.minimum, len(each.pods)) for each in groups_of([runtime, job])] == [(7, 7)]
    with pytest.raises(ExpansionError, match=r'TrainJob default/w: spec\.runtimeRef\.name is "torch"; put this'):
        groups_of([job])


def test_every_kind_that_is_grouped_by_a_rule_is_expanded_or_asks_for_its_pods() -> None:
    kinds = {(text.rpartition("/")[0].rpartition("/")[0], text.rpartition("/")[2]) for text in (*GROUPERS, *WRAPPERS)}
    assert kinds == GROUPED
    for group, kind in sorted(kinds - RULES.keys() - {("", "Pod"), ("grove.io", "PodCliqueSet")}):
        with pytest.raises(ExpansionError, match=f"{kind} default/w: spec doesn't say what pods"):
            groups_of([with_spec(f"{group}/v1", kind, {})])


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        (
            with_spec("batch/v1", "Job", {"parallelism": "2", "template": NEVER}),
            "Job default/w: spec.parallelism is '2'",
        ),
        (with_spec("batch/v1", "Job", {}), "Job default/w: spec.template is missing"),
        (with_spec("apps/v1", "Deployment", {"template": {"spec": {"containers": []}}}), "spec.containers: Required"),
        (
            with_spec("example.com/v1", "Blender", {}),
            "Blender default/w: kind is Blender of example.com/v1, and Bosket",
        ),
        (
            with_spec("batch/v1", "Job", {"template": {"spec": {**NEVER["spec"], "priorityClassName": "x"}}}),
            "spec.priorityClassName is x, and there is no such PriorityClass",
        ),
        (
            with_spec("ray.io/v1", "RayJob", {}),
            "RayJob default/w: spec.rayClusterSpec is missing",
        ),
        (
            with_spec(
                "batch/v1", "Job", {"template": NEVER}, ownerReferences=[{"apiVersion": "v1", "kind": "X", "name": "y"}]
            ),
            "Job default/w: metadata.ownerReferences[0] names X y, which isn't in the files",
        ),
    ],
)
def test_what_is_wrong_is_told_by_object_and_field(workload: Document, said: str) -> None:
    with pytest.raises(ExpansionError) as error:
        groups_of([workload])
    assert said in str(error.value)


def changed(value: Any, wrong: Any) -> Iterator[Any]:
    """The value with another one in place of each of its parts in turn."""
    yield wrong
    if isinstance(value, dict):
        for name, below in value.items():
            yield from ({**value, name: each} for each in changed(below, wrong))
    elif isinstance(value, list):
        for at, below in enumerate(value):
            yield from ([*value[:at], each, *value[at + 1 :]] for each in changed(below, wrong))


@pytest.mark.parametrize("wrong", ["x", 7, ["x"], {"x": "x"}], ids=repr)
@pytest.mark.parametrize("case", [*ALONE, "TrainJob"])
def test_a_field_of_another_type_is_refused_in_a_sentence(case: str, wrong: Any) -> None:
    documents = [ALONE[case][0]] if case in ALONE else TRAIN_JOB
    for number, document in enumerate(documents):
        for spec in changed(document.get("spec"), wrong):
            with suppress(ExpansionError):
                given = [*documents[:number], {**document, "spec": spec}, *documents[number + 1 :]]
                expand([Manifest(each, "the test") for each in given], "default", NOW)


def test_what_a_runtime_has_in_place_of_objects_is_told_by_object_and_field() -> None:
    runtime, job = TRAIN_JOB
    for jobs, said in (
        (["x"], "ClusterTrainingRuntime default/torch: spec.template.spec.replicatedJobs[0] is 'x', not an object"),
        ([{"name": "node", "template": "x"}], "spec.template.spec.replicatedJobs[0].template is 'x', not an object"),
        (
            [{"name": "node", "template": {"spec": {"template": {"spec": {"containers": ["x"]}}}}}],
            "spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers[0] is 'x', not an object",
        ),
    ):
        given = {**runtime, "spec": {"template": {"spec": {"replicatedJobs": jobs}}}}
        with pytest.raises(ExpansionError) as error:
            expand([Manifest(given, "the test"), Manifest(job, "the test")], "default", NOW)
        assert said in str(error.value)


@pytest.mark.parametrize(
    "workload",
    [
        with_spec(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {
                "replicatedJobs": [
                    {"name": "a", "replicas": 40, "template": {"spec": {"parallelism": 40, "template": NEVER}}}
                ]
            },
        ),
        with_spec("ray.io/v1", "RayCluster", {**RAY, "workerGroupSpecs": [
            {"groupName": "gpu", "replicas": 90_000, "numOfHosts": 90_000, "template": TEMPLATE}
        ]}),
        with_spec("apps/v1", "Deployment", {"replicas": 1001, "template": TEMPLATE}),
    ],
    ids=lambda each: each["kind"],
)  # fmt: skip
def test_pods_are_bounded_over_all_levels(workload: Document, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bosket.tools.expansion.expand.MOST_PODS", 1000)
    monkeypatch.setattr("bosket.tools.expansion.expand._MOST_OBJECTS", 2000)
    with pytest.raises(ExpansionError, match="the files come to more than"):
        expand([Manifest(workload, "the test")], "default", NOW)


def test_definitions_have_no_pods() -> None:
    assert groups_of(read_example(KINDS / "definitions.yaml")) == []
