"""Who may use which queue and priority class, as admission judges it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bosket.api.admission import AdmissionRequest
from bosket.api.authentication import UserInfo
from bosket.api.cel import Expression
from bosket.api.kai import Queue
from bosket.api.meta import GroupVersionKind
from bosket.api.object import ObjectMeta
from bosket.api.scheduling_k8s import PriorityClass
from bosket.install.right import owners_of_pods
from bosket.runtime.webhook.registration import Reach
from bosket.services.admission.access import Known, check_access, uses
from bosket.services.admission.options import Options
from bosket.services.admission.registration import configurations
from bosket.services.admission.review_handlers import check_queue
from bosket.testing.build import pod_group, queue

ON = Options(access_control=True)
JANE = UserInfo(username="jane", groups=("system:authenticated",))
JOE = UserInfo(username="joe")
MASTER = UserInfo(username="root", groups=("system:masters",))
JOB_CONTROLLER = UserInfo(username="system:serviceaccount:kube-system:job-controller")
GROUPER = UserInfo(username="system:serviceaccount:kai-scheduler:pod-grouper")
OWNED = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}]


def ruled(name: str, **annotations: str) -> Queue:
    made = queue(name)
    said = {f"bosket.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return replace(made, metadata=replace(made.metadata, annotations=said))


QUEUES = {
    each.metadata.name: each
    for each in (
        ruled("of-a", allowed_namespaces="a"),
        ruled("of-jane", allowed_subjects="user:jane"),
        ruled("team-x-pool-1", allowed_subjects="user:jane"),
        ruled("open"),
    )
}
CLASSES = {
    "inference": PriorityClass(
        metadata=ObjectMeta(name="inference", annotations={"bosket.dev/namespace-selector": "tier=prod"}), value=125
    )
}
GROUPS = {each.key: each for each in (pod_group("janes", queue="of-jane", namespace="a"),)}
KNOWN = Known(lambda: QUEUES, lambda: CLASSES, lambda name: {"tier": "prod"} if name == "prod" else {}, GROUPS.get)


def judged(
    document: dict[str, Any],
    *,
    kind: str = "Pod",
    namespace: str = "a",
    user: UserInfo = JANE,
    old: dict[str, Any] | None = None,
    options: Options = ON,
) -> list[str]:
    request = AdmissionRequest(
        kind=GroupVersionKind(group="", version="v1", kind=kind),
        namespace=namespace,
        operation="CREATE" if old is None else "UPDATE",
        userInfo=user,
        object=document,
        oldObject=old,
    )
    return [f"{field}: {message}" for field, message in check_access(request, options, KNOWN).refusals]


def a_pod(queue_name: str = "", *, owners: Any = (), **spec: Any) -> dict[str, Any]:
    labels = {"kai.scheduler/queue": queue_name} if queue_name else {}
    return {"metadata": {"labels": labels, "ownerReferences": list(owners)}, "spec": {"containers": [], **spec}}


def test_a_pod_may_not_name_a_queue_of_another_namespace() -> None:
    assert judged(a_pod("of-a")) == []
    (told,) = judged(a_pod("of-a"), namespace="b")
    assert told == ("metadata.labels[kai.scheduler/queue]: namespace b may not use queue of-a: it is for namespaces a")
    assert judged(a_pod("of-a"), namespace="b", options=Options()) == []


def test_a_pod_may_not_name_a_priority_class_of_other_namespaces() -> None:
    urgent = a_pod("open", priorityClassName="inference")
    (told,) = judged(urgent)
    assert told.startswith("spec.priorityClassName: namespace a may not use priority class inference")
    assert judged(urgent, namespace="prod") == []


@pytest.mark.parametrize("user", [JOE, JOB_CONTROLLER])
def test_whoever_makes_a_pod_for_themselves_must_be_admitted(user: UserInfo) -> None:
    (told,) = judged(a_pod("of-jane"), user=user)
    assert f"{user.username} may not use queue of-jane: it is for user:jane" in told
    assert judged(a_pod("of-jane"), user=JANE) == []


def test_what_a_controller_makes_for_its_owner_was_judged_with_the_owner() -> None:
    owned = a_pod("of-jane", owners=OWNED)
    assert judged(owned, user=JOB_CONTROLLER) == []
    assert judged(owned, user=JOE), "an owner that anybody may write into a pod proves nothing"
    operator = UserInfo(username="system:serviceaccount:kubeflow:training-operator")
    assert judged(owned, user=operator)
    trusting = Options(access_control=True, trusted_subjects=("serviceaccount:kubeflow/training-operator",))
    assert judged(owned, user=operator, options=trusting) == []
    # Nobody is trusted about namespaces.
    assert judged(a_pod("of-a", owners=OWNED), user=JOB_CONTROLLER, namespace="b")
    assert judged(a_pod("of-a"), user=MASTER, namespace="b")


def test_those_who_may_do_anything_aren_t_bound_by_rules_about_users() -> None:
    assert judged(a_pod("of-jane"), user=MASTER) == []


def test_pod_groups_are_judged_by_their_spec() -> None:
    group = {"metadata": {}, "spec": {"queue": "of-jane", "priorityClassName": "inference"}}
    told = judged(group, kind="PodGroup", user=JOE)
    assert [each.split(":")[0] for each in told] == ["spec.priorityClassName", "spec.queue"]
    assert judged({"spec": {"queue": "of-jane"}}, kind="PodGroup", user=GROUPER) == []


@pytest.mark.parametrize(
    "spec",
    [
        {"template": {"metadata": {"labels": {"kai.scheduler/queue": "of-jane"}}}},
        {"jobTemplate": {"spec": {"template": {"metadata": {"labels": {"kai.scheduler/queue": "of-jane"}}}}}},
        {"pytorchReplicaSpecs": {"Worker": {"template": {"metadata": {"labels": {"kai.scheduler/queue": "of-jane"}}}}}},
        {"template": {"cliques": [{"labels": {"kai.scheduler/queue": "of-jane"}}]}},
        {"template": {"metadata": {"labels": {"project": "of-jane"}}}},
    ],
)
def test_workloads_are_judged_by_the_pods_that_they_will_make(spec: dict[str, Any]) -> None:
    (told,) = judged({"metadata": {}, "spec": spec}, kind="Any", user=JOE)
    assert "joe may not use queue of-jane" in told
    assert judged({"metadata": {}, "spec": spec}, kind="Any", user=JANE) == []


def test_a_pod_that_names_a_pod_group_uses_the_queue_of_the_group() -> None:
    member = {"metadata": {"annotations": {"pod-group-name": "janes"}}, "spec": {}}
    (told,) = judged(member, user=JOE)
    where = "metadata.annotations[pod-group-name]"
    assert told == f"{where}: pod group janes: joe may not use queue of-jane: it is for user:jane"
    assert judged(member, user=JANE) == []
    assert judged(member, user=GROUPER) == []
    assert judged(member, user=JOE, namespace="b") == [], "a pod group of that name in another namespace is another"
    assert judged(member, user=JOE, old=member) == []
    assert judged(member, user=JOE, old={"metadata": {}, "spec": {}})


def test_a_template_that_names_a_pod_group_is_judged_like_the_pods_that_it_makes() -> None:
    meta = {"annotations": {"pod-group-name": "janes", "kai.scheduler/skip-podgrouper": "true"}}
    document = {"metadata": {}, "spec": {"template": {"metadata": meta}}}
    (told,) = judged(document, kind="Job", user=JOE)
    assert told.startswith("spec.template.metadata.annotations[pod-group-name]: pod group janes: joe may not use")
    assert judged(document, kind="Job", user=JANE) == []


@pytest.mark.parametrize("first", ["project", "kai.scheduler/node-pool"])
def test_a_project_and_a_node_pool_in_different_labels_name_a_queue_together(first: str) -> None:
    labels = {"project": "team-x", "kai.scheduler/node-pool": "pool-1"}
    (second,) = labels.keys() - {first}
    document = {
        "metadata": {"labels": {first: labels[first]}},
        "spec": {"template": {"metadata": {"labels": {second: labels[second]}}}},
    }
    (told,) = judged(document, kind="Job", user=JOE)
    assert "labels[project]: joe may not use queue team-x-pool-1" in told
    assert judged(document, kind="Job", user=JANE) == []
    other = {"metadata": {}, "spec": {"template": {"metadata": {"labels": {**labels, "project": "team"}}}}}
    assert judged(other, kind="Job", user=JOE) == []


def test_thousands_of_projects_and_node_pools_in_one_object_are_not_paired() -> None:
    """All pairs of them would be a hundred million."""
    cliques = [{"labels": {"project": f"p{i}", "kai.scheduler/node-pool": f"n{i}"}} for i in range(10_000)]
    found = list(uses({"spec": {"cliques": cliques}}, "Any", ON.queue_label_key, lambda: ["p7-n9", "p7-other"]))
    assert len(found) == 10_001
    assert found[-1].name == "p7-n9"


def test_what_was_named_before_may_stay() -> None:
    before = a_pod("of-a")
    changed = a_pod("of-a", priority=1)
    assert judged(changed, old=before, namespace="b", user=JOE) == []
    assert judged(a_pod("of-a"), old=a_pod("open"), namespace="b")


def test_a_queue_with_a_rule_that_cant_be_read_is_refused() -> None:
    document = {"metadata": {"name": "q", "annotations": {"bosket.dev/allowed-subjects": "jane"}}, "spec": {}}
    request = AdmissionRequest(operation="CREATE", object=document)
    told = [message for _, message in check_queue(request, dict, ON).refusals]
    assert any("nobody may use queue q while its rule can't be read" in each for each in told)
    assert not any("rule" in message for _, message in check_queue(request, dict, Options()).refusals)


# --- which objects admission is asked about at all

LABELS = st.fixed_dictionaries(
    {},
    optional={
        key: st.sampled_from(["", "of-jane"])
        for key in ("kai.scheduler/queue", "project", "priorityClassName", "ray.io/priority-class-name", "other")
    },
)
ANNOTATIONS = st.fixed_dictionaries({}, optional={"pod-group-name": st.just("janes"), "other": st.just("x")})
META = st.fixed_dictionaries({}, optional={"labels": LABELS, "annotations": ANNOTATIONS})
TEMPLATE = st.fixed_dictionaries(
    {"spec": st.fixed_dictionaries({}, optional={"priorityClassName": st.sampled_from(["", "inference"])})},
    optional={"metadata": META},
)
JOB_SPEC = st.fixed_dictionaries({"template": TEMPLATE})
#: Where Kubernetes' own kinds have a pod template; of a ReplicationController it may be missing.
SPECS = {
    "cronjobs": st.fixed_dictionaries(
        {"jobTemplate": st.fixed_dictionaries({"spec": JOB_SPEC}, optional={"metadata": META})}
    ),
    "replicationcontrollers": st.fixed_dictionaries({}, optional={"template": TEMPLATE}),
}
BUILT_IN = [(group, plural) for group, plural in owners_of_pods() if group in ("", "apps", "batch")]


@cache
def match_condition() -> Expression:
    made = configurations(ON, Reach("kai-scheduler", "admission"), b"")
    (hook,) = [each for one in made for each in one.webhooks if each.name.startswith("access.")]
    (condition,) = hook.matchConditions
    return Expression(condition.expression)


@given(st.data())
def test_admission_is_asked_about_whatever_names_a_queue_or_a_priority_class(data: st.DataObject) -> None:
    group, plural = data.draw(st.sampled_from(BUILT_IN))
    document = {"metadata": data.draw(META), "spec": data.draw(SPECS.get(plural, JOB_SPEC))}
    request = {"resource": {"group": group, "resource": plural}}
    asked = match_condition().evaluate({"object": document, "request": request})
    assert asked or not list(uses(document, "Any", ON.queue_label_key, dict))


@pytest.mark.parametrize(("group", "plural"), [each for each in owners_of_pods() if each not in BUILT_IN])
def test_admission_is_asked_about_all_objects_of_other_kinds(group: str, plural: str) -> None:
    request = {"resource": {"group": group, "resource": plural}}
    assert match_condition().evaluate({"object": {"metadata": {}, "spec": {}}, "request": request})
