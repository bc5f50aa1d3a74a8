"""Kinds of other projects: what their pods wait for, and what is said when their objects are wrong."""

from __future__ import annotations

from typing import Any

import pytest

from bosket.api import keys
from bosket.api.kai import PodGroup, PodGroupSpec, SubGroup
from bosket.api.object import ObjectKey, ObjectMeta, OwnerReference
from bosket.services.podgrouper.options import Options
from bosket.services.podgrouper.owner import GroupingError, Owner
from tests.podgrouper.sketch import NAMESPACE, SketchedCluster, group_of, grouping_of, owner, pod
from tests.present import present

TOPOLOGY = {keys.TOPOLOGY_ANNOTATION: "cluster", keys.SEGMENT_TOPOLOGY_REQUIRED_ANNOTATION: "rack"}


def minima(group: PodGroup) -> dict[str, int | None]:
    """Pods per leaf, or children with a star."""
    return {
        each.name if each.minSubGroup is None else f"{each.name}*": each.minMember
        if each.minSubGroup is None
        else each.minSubGroup
        for each in group.spec.subGroups
    }


# --- Kubeflow


def training(kind: str, specs: str, **replicas: int) -> Owner:
    return owner(f"kubeflow.org/v1/{kind}", "train", spec={specs: {k: {"replicas": n} for k, n in replicas.items()}})


def test_all_pods_of_a_training_job_start_together() -> None:
    job = training("TFJob", "tfReplicaSpecs", PS=2, Worker=3)
    assert group_of(pod("a", job), job).spec.minMember == 5


def test_the_jobs_own_scheduling_policy_comes_first() -> None:
    job = training("TFJob", "tfReplicaSpecs", Worker=3)
    job.content["spec"]["runPolicy"] = {"schedulingPolicy": {"minAvailable": 2}}
    assert group_of(pod("a", job), job).spec.minMember == 2


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        (training("XGBoostJob", "xgbReplicaSpecs", Worker=1), "spec.xgbReplicaSpecs.Master is missing"),
        (training("JAXJob", "jaxReplicaSpecs", Worker=0), "spec.jaxReplicaSpecs.Worker.replicas must be at least 1"),
        (owner("kubeflow.org/v1/TFJob", "train"), "spec.tfReplicaSpecs is missing"),
        (
            owner("kubeflow.org/v1/TFJob", "train", spec={"tfReplicaSpecs": 3}),
            "spec.tfReplicaSpecs is 3, not an object",
        ),
    ],
)
def test_a_training_job_that_lacks_pods_is_told_where(job: Owner, sentence: str) -> None:
    with pytest.raises(GroupingError, match=f"team-a/train: {sentence}"):
        group_of(pod("a", job), job)


def mpi_job() -> Owner:
    job = training("MPIJob", "mpiReplicaSpecs", Launcher=1, Worker=4)
    job.content["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady"
    return job


def test_workers_do_not_wait_for_a_launcher_that_waits_for_them() -> None:
    job = mpi_job()
    labels = {"training.kubeflow.org/job-name": "train", "training.kubeflow.org/job-role": "launcher"}
    worker, launcher = pod("w", job), pod("l", job, labels=labels)
    going = pod("l", job, labels=labels, deleting=True)
    assert group_of(worker, job).spec.minMember == 4
    assert group_of(worker, job, cluster=SketchedCluster(pods=(going,))).spec.minMember == 4
    assert group_of(worker, job, cluster=SketchedCluster(pods=(launcher,))).spec.minMember == 5


def test_notebooks_are_interactive() -> None:
    top = owner("kubeflow.org/v1beta1/Notebook", "nb")
    assert group_of(pod("nb-0", top), top).spec.priorityClassName == "build"


def pytorch(workers: int, annotations: dict[str, str] | None = None, **more: Any) -> Owner:
    template = {"metadata": {"annotations": annotations or {}}}
    specs = {"Master": {"replicas": 1}, "Worker": {"replicas": workers, "template": template}}
    return owner("kubeflow.org/v1/PyTorchJob", "train", spec={"pytorchReplicaSpecs": specs, **more})


def worker(index: int, job: Owner, **annotations: str) -> Any:
    labels = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": str(index)}
    return pod(f"w{index}", job, labels=labels, annotations=annotations)


def test_master_and_workers_are_parts_of_one_gang() -> None:
    job = pytorch(3)
    found = grouping_of(worker(1, job), job)
    assert (minima(found.pod_group), found.subgroup) == ({"master": 1, "worker": 3}, "worker")


def test_workers_beyond_the_minimum_of_an_elastic_job_hold_nobody_up() -> None:
    job = pytorch(10, {keys.SEGMENT_SIZE_ANNOTATION: "4", **TOPOLOGY}, elasticPolicy={"minReplicas": 6})
    found = grouping_of(worker(9, job), job)
    expected = {"master": 1, "worker*": 3, "worker-0": 4, "worker-1": 4, "worker-2": 0}
    assert (minima(found.pod_group), found.subgroup) == (expected, "worker-2")
    assert {present(each.topologyConstraint).requiredTopologyLevel for each in found.pod_group.spec.subGroups[2:]} == {
        "rack"
    }


@pytest.mark.parametrize(
    ("size", "sentence"),
    [("0", "it must be at least 1"), ("-1", "it must be at least 1"), ("x", "it must be a whole number")],
)
def test_a_segment_has_at_least_one_worker(size: str, sentence: str) -> None:
    """Also where the pod itself says so, which KAI doesn't check."""
    job = pytorch(4)
    with pytest.raises(GroupingError, match=f'pod team-a/w0: annotation .* is "{size}"; {sentence}'):
        group_of(worker(0, job, **{keys.SEGMENT_SIZE_ANNOTATION: size}), job)


# --- Ray


def ray_cluster(*groups: dict[str, Any], kind: str = "RayCluster", name: str = "ray") -> Owner:
    return owner(f"ray.io/v1/{kind}", name, spec={"workerGroupSpecs": list(groups)})


def test_a_ray_cluster_needs_its_head_and_the_least_of_its_workers() -> None:
    cluster = ray_cluster(
        {"groupName": "cpu", "replicas": 4, "minReplicas": 2},
        {"replicas": 1, "numOfHosts": 3},
        {"groupName": "off", "replicas": 5, "suspended": True},
    )
    found = grouping_of(pod("w", cluster, labels={"ray.io/group": "cpu"}), cluster)
    assert minima(found.pod_group) == {"headgroup": 1, "cpu": 2, "worker-group-1": 3}
    assert (found.pod_group.spec.minMember, found.subgroup) == (6, "cpu")


def test_groups_of_one_name_are_refused_before_the_api_server_does() -> None:
    cluster = ray_cluster({"groupName": "headgroup", "replicas": 1})
    with pytest.raises(GroupingError, match=r'spec.workerGroupSpecs\[0\].groupName is "headgroup"'):
        group_of(pod("w", cluster), cluster)


def test_a_ray_job_waits_for_the_name_of_its_cluster() -> None:
    job = owner("ray.io/v1/RayJob", "job")
    with pytest.raises(GroupingError, match=r"team-a/job: status.rayClusterName names no RayCluster yet"):
        group_of(pod("w", job), job)


def test_a_ray_job_is_grouped_by_the_cluster_that_it_made() -> None:
    job = owner("ray.io/v1/RayJob", "job")
    named = Owner.untyped(job.gvk, {**job.content, "status": {"rayClusterName": "made"}})
    found = SketchedCluster(owners=(ray_cluster({"replicas": 2}, name="made"),))
    group = group_of(pod("w", named), named, cluster=found)
    assert (group.metadata.name, group.spec.minMember) == ("pg-job-uid-job", 3)


def test_a_group_without_parts_stays_without() -> None:
    cluster = ray_cluster({"replicas": 2})
    known = SketchedCluster(pod_groups={ObjectKey(NAMESPACE, "pg-ray-uid-ray"): PodGroup()})
    assert group_of(pod("w", cluster), cluster, cluster=known).spec.subGroups == ()


# --- LeaderWorkerSet


def leader_worker_set(size: int, policy: dict[str, Any] | None = None, **spec: Any) -> Owner:
    template = {"size": size, **({"subGroupPolicy": policy} if policy else {})}
    return owner("leaderworkerset.x-k8s.io/v1/LeaderWorkerSet", "lws", spec={"leaderWorkerTemplate": template, **spec})


def member(index: int, top: Owner, group: int = 0) -> Any:
    labels = {
        "leaderworkerset.sigs.k8s.io/worker-index": str(index),
        "leaderworkerset.sigs.k8s.io/group-index": str(group),
    }
    return pod(f"lws-{group}-{index}", top, labels=labels)


def test_each_replica_of_a_leader_worker_set_is_a_gang() -> None:
    top = leader_worker_set(4)
    found = grouping_of(member(2, top, group=1), top)
    assert found.pod_group.metadata.name == "pg-lws-uid-lws-group-1"
    assert (minima(found.pod_group), found.subgroup) == ({"leader": 1, "workers": 3}, "workers")


@pytest.mark.parametrize(
    ("size", "segment", "policy", "expected"),
    [
        (9, 4, "LeaderWorker", {"segment-0*": 2, "segment-1": 4, "leader": 1, "workers": 4}),
        (8, 4, "LeaderWorker", {"segment-0*": 2, "segment-1": 4, "leader": 1, "workers": 3}),
        (9, 4, "LeaderExcluded", {"leader": 1, "segment-0": 4, "segment-1": 4}),
        (5, 4, "LeaderWorker", {"segment-0*": 2, "leader": 1, "workers": 4}),
        (5, 4, "LeaderExcluded", {"leader": 1, "segment-0": 4}),
    ],
)
def test_segments_ask_for_as_many_pods_as_there_are(
    size: int, segment: int, policy: str, expected: dict[str, int]
) -> None:
    top = leader_worker_set(size, {"subGroupSize": segment, "subGroupPolicyType": policy})
    group = group_of(member(1, top), top)
    assert minima(group) == expected
    assert sum(each.minMember or 0 for each in group.spec.subGroups) == size


def test_a_leader_that_workers_come_after_waits_for_nobody_even_with_segments() -> None:
    top = leader_worker_set(9, {"subGroupSize": 4}, startupPolicy="LeaderReady")
    found = grouping_of(member(0, top), top)
    assert (minima(found.pod_group), found.pod_group.spec.minMember, found.subgroup) == ({"leader": 1}, 1, "leader")


def test_a_worker_beyond_the_size_is_refused_by_name() -> None:
    top = leader_worker_set(9, {"subGroupSize": 4})
    with pytest.raises(GroupingError, match=r'worker-index is "12", beyond the group'):
        group_of(member(12, top), top)


# --- JobSet


def job_set(*jobs: dict[str, Any], **spec: Any) -> Owner:
    return owner("jobset.x-k8s.io/v1alpha2/JobSet", "set", spec={"replicatedJobs": list(jobs), **spec})


DRIVER = {"name": "driver"}
WORKERS = {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 4}}}


def of_job(job: str, index: int, top: Owner) -> Any:
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": job, "jobset.sigs.k8s.io/job-index": str(index)}
    return pod(f"{job}-{index}", top, labels=labels)


def test_a_job_set_is_a_tree_of_jobs_and_replicas() -> None:
    top = job_set(DRIVER, WORKERS)
    found = grouping_of(of_job("workers", 1, top), top)
    assert found.pod_group.spec.minSubGroup == 2
    assert minima(found.pod_group) == {
        "driver*": 1,
        "driver-replica-0": 1,
        "workers*": 2,
        "workers-replica-0": 4,
        "workers-replica-1": 4,
    }
    assert found.subgroup == "workers-replica-1"


def test_jobs_that_come_one_after_the_other_do_not_wait_for_each_other() -> None:
    top = job_set(DRIVER, WORKERS, startupPolicy={"startupPolicyOrder": "InOrder"})
    assert group_of(of_job("driver", 0, top), top).spec.minSubGroup == 1


def test_a_replica_that_the_set_does_not_have_is_refused_by_name() -> None:
    top = job_set(DRIVER)
    with pytest.raises(GroupingError, match="is in driver-replica-3 by its labels, but JobSet team-a/set has no such"):
        group_of(of_job("driver", 3, top), top)


def test_a_job_set_with_a_group_of_an_older_version_goes_on_with_it() -> None:
    top = job_set(DRIVER, WORKERS)
    key = ObjectKey(NAMESPACE, "pg-set-uid-set")
    flat = PodGroup(metadata=ObjectMeta(name=key.name, namespace=NAMESPACE))
    tree = PodGroup(metadata=flat.metadata, spec=PodGroupSpec(subGroups=(SubGroup(name="x"),)))
    of_pod = of_job("driver", 0, top)
    assert group_of(of_pod, top, cluster=SketchedCluster(pod_groups={key: flat})).spec.subGroups == ()
    assert group_of(of_pod, top, cluster=SketchedCluster(pod_groups={key: tree})).spec.subGroups


# --- Knative

REVISION_LABEL = "serving.knative.dev/revision"


def knative() -> tuple[Owner, SketchedCluster, Any]:
    service = owner("serving.knative.dev/v1/Service", "svc", labels={keys.QUEUE_LABEL: "of-service"})
    revision = owner(
        "serving.knative.dev/v1/Revision",
        "svc-1",
        labels={keys.QUEUE_LABEL: "of-revision"},
        annotations={"autoscaling.knative.dev/min-scale": "3"},
    )
    return service, SketchedCluster(owners=(revision,)), pod("p", service, labels={REVISION_LABEL: "svc-1"})


def test_the_pods_of_a_revision_are_a_gang_of_its_smallest_scale() -> None:
    service, cluster, of_pod = knative()
    found = group_of(of_pod, service, cluster=cluster)
    assert (found.metadata.name, found.spec.minMember) == ("pg-svc-1-uid-svc-1", 3)
    assert (found.spec.queue, found.spec.priorityClassName) == ("of-revision", "inference")


def test_gangs_of_revisions_can_be_switched_off() -> None:
    service, cluster, of_pod = knative()
    found = group_of(of_pod, service, cluster=cluster, options=Options(knative_gang_schedule=False))
    assert (found.metadata.name, found.spec.minMember) == ("pg-p-uid-p", 1)


@pytest.mark.parametrize(("owned_by", "name"), [("Pod", "pg-new-uid-new"), ("Revision", "pg-svc-1-uid-svc-1")])
def test_a_revision_goes_on_with_groups_as_they_were(owned_by: str, name: str) -> None:
    service, cluster, _ = knative()
    labels = {REVISION_LABEL: "svc-1"}
    cluster.pods = (pod("old", service, labels=labels, annotations={keys.POD_GROUP_ANNOTATION: "g"}),)
    reference = OwnerReference(apiVersion="v1", kind=owned_by, name="x", uid="u")
    cluster.pod_groups[ObjectKey(NAMESPACE, "g")] = PodGroup(metadata=ObjectMeta(ownerReferences=(reference,)))
    assert group_of(pod("new", service, labels=labels), service, cluster=cluster).metadata.name == name


# --- Grove


def gang(**spec: Any) -> SketchedCluster:
    annotations = {keys.GROVE_TOPOLOGY_ANNOTATION: "cluster"}
    return SketchedCluster(
        owners=(owner("scheduler.grove.io/v1alpha1/PodGang", "set-0", annotations=annotations, spec=spec),)
    )


def podgroup(name: str, least: int, *pods: str, namespace: str = NAMESPACE) -> dict[str, Any]:
    references = [{"namespace": namespace, "name": each} for each in pods]
    return {"name": name, "minReplicas": least, "podReferences": references}


SET = owner("grove.io/v1alpha1/PodCliqueSet", "set", labels={keys.PRIORITY_CLASS_LABEL: "of-set"})
OF_GANG = pod("p1", SET, labels={"grove.io/podgang": "set-0"})


def test_a_pod_clique_set_is_grouped_by_gang_in_the_parts_that_it_says() -> None:
    cluster = gang(
        podgroups=[podgroup("prefill", 2, "p0", "p1"), podgroup("decode", 3)],
        topologyConstraintGroupConfigs=[
            {
                "name": "near",
                "podGroupNames": ["prefill"],
                "topologyConstraint": {"packConstraint": {"required": "rack"}},
            }
        ],
    )
    found = grouping_of(OF_GANG, SET, cluster=cluster)
    assert found.pod_group.metadata.name == "pg-set-0-uid-set-0"
    assert (minima(found.pod_group), found.subgroup) == ({"near*": 1, "prefill": 2, "decode": 3}, "prefill")
    assert found.pod_group.spec.priorityClassName == "of-set"
    assert [each.parent for each in found.pod_group.spec.subGroups] == [None, "near", None]


def test_a_gang_has_pods_of_its_own_namespace_only() -> None:
    cluster = gang(podgroups=[podgroup("prefill", 1, "p1", namespace="other")])
    with pytest.raises(GroupingError, match=r"podReferences\[0\].namespace is other"):
        group_of(OF_GANG, SET, cluster=cluster)


# --- wrappers


def test_the_owner_below_a_wrapper_decides_with_what_the_wrapper_says_and_it_does_not() -> None:
    workflow = owner("argoproj.io/v1alpha1/Workflow", "flow", labels={keys.QUEUE_LABEL: "flow", "team": "x"})
    job = training("TFJob", "tfReplicaSpecs", Worker=3)
    found = group_of(pod("w", job), job, workflow)
    assert (found.metadata.name, found.spec.minMember, found.spec.queue) == ("pg-train-uid-train", 3, "flow")
    assert found.metadata.labels["team"] == "x"


def test_wrappers_may_wrap_wrappers() -> None:
    job = training("TFJob", "tfReplicaSpecs", Worker=3)
    middle, top = owner("argoproj.io/v1alpha1/Workflow", "flow"), owner("trainer.kubeflow.org/v1alpha1/TrainJob", "t")
    assert group_of(pod("w", job), job, middle, top).metadata.name == "pg-train-uid-train"


def test_a_pod_directly_below_a_wrapper_is_a_group_of_its_own() -> None:
    workflow = owner("argoproj.io/v1alpha1/Workflow", "flow")
    assert group_of(pod("step", workflow), workflow).metadata.name == "pg-step-uid-step"
