"""The policies that come with an installation, on a real and on the embedded server: what each account may not do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import pytest

from bosket.api.admission import MutatingWebhookConfiguration
from bosket.api.core import Pod
from bosket.api.grove import PodCliqueSet, PodCliqueSetSpec, PodCliqueSetTemplateSpec
from bosket.api.grove.naming import CHILDREN_PROTECTED
from bosket.api.keys import SYSTEM_NAMESPACE, TOKEN_ACCOUNT_ANNOTATION
from bosket.api.object import ObjectMeta
from bosket.api.rbac import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from bosket.grove.admission.registration import configurations
from bosket.grove.render.access import token_secret
from bosket.install.chart import manifests
from bosket.install.policy_part import GUARDED_ANNOTATIONS
from bosket.kube.client import PatchType
from bosket.kube.credentials import Credential, bearer
from bosket.runtime.webhook.registration import Configuration, Reach
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import config_map, pod, sharing_pod
from tests.e2e.wire import Answer, Wire, on_the_wire

GROUP = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
BIND_REQUESTS = "scheduling.run.ai/v1alpha2/bindrequests"
OBSERVED = "kai.scheduler/numa-placement-observed"


@dataclass
class Installed:
    """The policies of an installation whose services live in the test's namespace."""

    cluster: Cluster
    stack: AsyncExitStack

    async def acting(self, account: str) -> Wire:
        """Requests of an account, or of a user where the name has a colon, that roles would allow everything."""
        user = account if ":" in account else f"system:serviceaccount:{self.cluster.namespace}:{account}"
        return await self.stack.enter_async_context(on_the_wire(self.cluster, user=user, groups=["system:masters"]))

    async def answered(self, ask: Callable[[], Awaitable[Answer]], status: int = 200) -> None:
        """Waits, too: policies of the same names for another namespace may still be in force for a moment."""

        async def is_answered() -> bool:
            answer = await ask()
            assert answer.status == status, answer.body
            return True

        await self.cluster.eventually(is_answered)

    async def refused(self, ask: Callable[[], Awaitable[Answer]], *told: str) -> None:
        """Waits for a policy to be in force, which takes a moment on a real server."""

        async def is_refused() -> bool:
            answer = await ask()
            assert answer.status == 403, answer.body
            assert all(each in answer.message for each in told), answer.message
            return True

        await self.cluster.eventually(is_refused)


@pytest.fixture
def home(request: pytest.FixtureRequest, cluster: Cluster) -> str:
    """The namespace of the services: the test's own, where nobody else acts as they."""
    return str(getattr(request, "param", cluster.namespace))


@pytest.fixture
async def installed(cluster: Cluster, home: str) -> AsyncIterator[Installed]:
    values = {"accessControl": {"enabled": True}, "grove": {"enabled": True}}
    found = [each for each in manifests(values, home, definitions=False) if each["kind"] in PLURALS]
    async with AsyncExitStack() as stack:
        admin = await stack.enter_async_context(on_the_wire(cluster))
        for each in found:
            path = f"{GROUP}/{PLURALS[each['kind']]}"
            stack.push_async_callback(admin.send, "DELETE", f"{path}/{each['metadata']['name']}")
            answer = await admin.send("POST", path, each)
            assert answer.status == 201, answer.body
        yield Installed(cluster, stack)


def bind_request(name: str, node: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.run.ai/v1alpha2",
        "kind": "BindRequest",
        "metadata": {"name": name},
        "spec": {"podName": name, "selectedNode": node},
    }


def annotated(**annotations: Any) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations}}


async def merge(wire: Wire, name: str, body: Any) -> Answer:
    """A dry run: it may be tried before a policy is in force."""
    return await wire.patch("pods", name, body, PatchType.MERGE, dryRun="All")


async def on_nodes(cluster: Cluster, **spec: Any) -> tuple[str, str]:
    """Two nodes; pods `here` and `there` are bound to them."""
    here, there = await cluster.add_nodes(2, gpus=1)
    for name, node in (("here", here), ("there", there)):
        await cluster.client.create(pod(name, nodeName=node, **spec), cluster.namespace)
    return here, there


async def test_the_exporter_of_a_node_annotates_pods_of_that_node_and_does_nothing_else(installed: Installed) -> None:
    """Its token is bound to its pod, and so names the node."""
    cluster, account = installed.cluster, "numa-placement-exporter"
    async with on_the_wire(cluster) as admin:
        await admin.create("serviceaccounts", {"metadata": {"name": account}})
        here, there = await on_nodes(cluster)
        for name, node in (("exporter", here), ("stranger", there)):
            await cluster.client.create(pod(name, nodeName=node, serviceAccountName=account), cluster.namespace)
        name = f"{cluster.namespace}-patches"
        rule = PolicyRule(apiGroups=("",), resources=("pods",), verbs=("get", "list", "patch"))
        await cluster.add(
            ClusterRole(metadata=ObjectMeta(name=name), rules=(rule,)),
            ClusterRoleBinding(
                metadata=ObjectMeta(name=name),
                subjects=(Subject(kind="ServiceAccount", name=account, namespace=cluster.namespace),),
                roleRef=RoleRef(apiGroup="rbac.authorization.k8s.io", kind="ClusterRole", name=name),
            ),
        )
        bound = await cluster.client.get(Pod, "exporter", cluster.namespace)
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "exporter", "uid": bound.metadata.uid}
        answer = await admin.send(
            "POST", admin.path("serviceaccounts", f"{account}/token"), {"spec": {"boundObjectRef": reference}}
        )
        credential = Credential(authorization=bearer(answer.body["status"]["token"]))
    async with on_the_wire(cluster, credential=credential) as exporter:

        async def may_list() -> bool:
            return (await exporter.list("pods")).status == 200

        await cluster.eventually(may_list)
        value = annotated(**{OBSERVED: "{}"})
        await installed.refused(lambda: merge(exporter, "there", value), f'exporter of node "{here}"', "/there, which")
        await installed.answered(lambda: merge(exporter, "here", value))
        only = "nothing but the annotation"
        await installed.refused(lambda: merge(exporter, "here", annotated(other="x")), only)
        image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "evil"}]
        await installed.refused(lambda: exporter.patch("pods", "here", image, PatchType.JSON), only)
    nobody = await installed.acting(account)  # no token, no node
    await installed.refused(lambda: merge(nobody, "here", value), 'exporter of node ""')


async def test_services_change_neither_containers_nor_what_is_others(installed: Installed) -> None:
    await on_nodes(installed.cluster)
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "evil"}]
    for account in ("binder", "scheduler", "pod-grouper", "grove-operator"):
        wire = await installed.acting(account)
        # Two policies refuse it to Grove's operator; the server chooses whose message it returns.
        told = "may" if account == "grove-operator" else "the containers of pods"

        def patch(wire: Wire = wire) -> Awaitable[Answer]:
            return wire.patch("pods", "here", image, PatchType.JSON, dryRun="All")

        await installed.refused(patch, told)
    scheduler = await installed.acting("scheduler")
    await installed.answered(
        lambda: merge(scheduler, "here", {"metadata": {"labels": {"kai.scheduler/node-pool": "a"}}})
    )

    await installed.refused(
        lambda: scheduler.create("configmaps", config_map("mine"), dryRun="All"), "no ConfigMaps but its memory"
    )
    await installed.answered(
        lambda: scheduler.create("configmaps", config_map("kai-scheduler-memory"), dryRun="All"), 201
    )

    binder, label = await installed.acting("binder"), {"bosket.dev/shared-gpu": "true"}
    await installed.refused(
        lambda: binder.create("configmaps", config_map("mine"), dryRun="All"), "no ConfigMaps but those of pods"
    )
    uid = (await installed.cluster.client.get(Pod, "here", installed.cluster.namespace)).metadata.uid
    owner = [{"apiVersion": "v1", "kind": "Pod", "name": "here", "uid": uid}]
    shared = config_map("here-shared-gpu-0", None, labels=label)
    shared["metadata"]["ownerReferences"] = owner
    await installed.answered(lambda: binder.create("configmaps", shared), 201)
    async with on_the_wire(installed.cluster) as admin:
        await admin.create("configmaps", config_map("theirs", {"a": "1"}))
    changed = {"metadata": {"labels": label, "ownerReferences": owner}}
    await installed.refused(
        lambda: binder.patch("configmaps", "theirs", changed, PatchType.MERGE), "no ConfigMaps but those of pods"
    )
    await installed.refused(
        lambda: binder.delete("configmaps", "theirs", dryRun="All"), "no ConfigMaps but those of pods"
    )
    await installed.answered(lambda: binder.delete("configmaps", "here-shared-gpu-0"))

    grove = await installed.acting("grove-operator")
    mark = {"labels": {"app.kubernetes.io/managed-by": "grove-operator"}}
    secret = {"metadata": {"name": "loot", **mark}, "type": "Opaque"}
    await installed.refused(
        lambda: grove.create("secrets", secret, dryRun="All"), "no Secrets but the tokens of init containers"
    )
    own = pod("p")
    own["metadata"]["labels"] = mark["labels"]
    await installed.refused(lambda: grove.create("pods", own, dryRun="All"), "no pods but those of PodCliques")


@pytest.mark.parametrize("home", [SYSTEM_NAMESPACE], indirect=True)
async def test_tokens_are_made_for_the_account_of_the_same_set_and_not_where_services_run(
    installed: Installed, home: str
) -> None:
    grove = await installed.acting(f"system:serviceaccount:{home}:grove-operator")
    meta = ObjectMeta(name="s", namespace=installed.cluster.namespace, uid="u")
    owner = PodCliqueSet(metadata=meta, spec=PodCliqueSetSpec(template=PodCliqueSetTemplateSpec(cliques=())))
    secret = msgspec.to_builtins(token_secret(owner))

    def make(namespace: str = installed.cluster.namespace, **metadata: Any) -> Awaitable[Answer]:
        body = {**secret, "metadata": {**secret["metadata"], "namespace": namespace, **metadata}}
        return grove.send("POST", f"/api/v1/namespaces/{namespace}/secrets", body, dryRun="All")

    (by,) = secret["metadata"]["ownerReferences"]
    another: dict[str, Any] = {"annotations": {TOKEN_ACCOUNT_ANNOTATION: "admin"}}
    only = "no Secrets but the tokens of init containers"
    await installed.refused(partial(make, **another), only)
    await installed.refused(partial(make, name="admin-ic-sat", **another), only)
    await installed.refused(partial(make, ownerReferences=[{**by, "name": "another"}]), only)
    await installed.refused(partial(make, ownerReferences=[]), only)
    await installed.answered(make, 201)

    services = ("kube-system", home)
    for namespace in services:
        await installed.refused(partial(make, namespace), f"neither Secrets nor pods in namespace {namespace}")
    own = pod("p")
    own["metadata"] |= {
        "labels": secret["metadata"]["labels"],
        "ownerReferences": [{**by, "kind": "PodClique", "name": "s-0-a"}],
    }
    for namespace in services:
        path = f"/api/v1/namespaces/{namespace}/pods"
        await installed.refused(partial(grove.send, "POST", path, own, dryRun="All"), "neither Secrets nor pods in")
    await installed.answered(partial(grove.create, "pods", own, dryRun="All"), 201)


async def test_webhooks_are_registered_by_name_and_about_own_kinds_alone(installed: Installed) -> None:
    admission = await installed.acting("admission")
    path = f"{GROUP}/mutatingwebhookconfigurations"
    everything = {
        "name": "steal.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "failurePolicy": "Ignore",
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"], "operations": ["CREATE"]},
        ],
    }

    def make(name: str, *webhooks: dict[str, Any]) -> Awaitable[Answer]:
        body = {"metadata": {"name": name}, "webhooks": list(webhooks)}
        return admission.send("POST", path, body, dryRun="All")

    await installed.refused(lambda: make("mine"), "may not register webhooks as mine")
    await installed.refused(lambda: make("mutating-kai-admission", everything), "other kinds than its own")
    await installed.answered(lambda: make("mutating-kai-admission"), 201)


async def test_grove_s_webhooks_are_asked_about_secrets_that_its_operator_made_and_no_others(
    installed: Installed,
) -> None:
    grove = await installed.acting("grove-admission")
    made = configurations(Reach(installed.cluster.namespace, "grove-operator"), b"", authorizer=True)

    def register(configuration: Configuration, selector: Any = None) -> Awaitable[Answer]:
        body = msgspec.to_builtins(configuration)
        (hook,) = body["webhooks"]
        if selector is not None:
            hook["objectSelector"] = selector
        plural = "mutating" if isinstance(configuration, MutatingWebhookConfiguration) else "validating"
        return grove.send("POST", f"{GROUP}/{plural}webhookconfigurations", body, dryRun="All")

    (protecting,) = [each for each in made if each.metadata.name == CHILDREN_PROTECTED]
    told = "kinds of others only with the objectSelector app.kubernetes.io/managed-by=grove-operator"
    key = "app.kubernetes.io/managed-by"
    exists = {"matchExpressions": [{"key": key, "operator": "In", "values": ["grove-operator", "helm"]}]}
    for selector in ({}, {"matchLabels": {key: "helm"}}, {"matchLabels": {"other": "grove-operator"}}, exists):
        await installed.refused(partial(register, protecting, selector), told)
    for each in made:
        await installed.answered(partial(register, each), 201)


async def test_what_a_bound_pod_is_charged_with_is_not_for_its_users_to_change(installed: Installed) -> None:
    await on_nodes(installed.cluster)
    user, binder = await installed.acting("user:jane"), await installed.acting("binder")
    for labels in ({"runai-gpu-group": "g"}, {"runai-gpu-group/g": "g"}, {"kai.scheduler/subgroup-name": "s"}):
        body = {"metadata": {"labels": labels}}
        await installed.refused(partial(merge, user, "here", body), "here is bound: its labels runai-gpu-group")
        await installed.answered(partial(binder.patch, "pods", "here", body, PatchType.MERGE))
    gone = {"metadata": {"labels": {"runai-gpu-group/g": None}}}
    await installed.refused(lambda: merge(user, "here", gone), "is bound: its labels")
    for key in GUARDED_ANNOTATIONS:
        await installed.refused(partial(merge, user, "here", annotated(**{key: "1"})), "is bound: its annotations")
    await installed.answered(lambda: merge(user, "here", {"metadata": {"labels": {"team": "a"}}}))
    await installed.answered(lambda: merge(user, "here", annotated(note="mine")))


@pytest.mark.parametrize("home", [SYSTEM_NAMESPACE], indirect=True)
async def test_services_do_their_work_under_the_policies(installed: Installed) -> None:
    cluster = installed.cluster
    await cluster.add_nodes(1, gpus=1)
    queue = await cluster.add_queue(gpu_quota=1)
    user = await installed.acting("user:jane")
    await installed.refused(lambda: user.create(BIND_REQUESTS, bind_request("a", "n"), dryRun="All"), "may not write")
    await cluster.start_services("podgrouper", "scheduler", "binder")
    shares = sharing_pod("a")
    shares["metadata"]["labels"] = {"kai.scheduler/queue": queue}
    await installed.answered(lambda: user.create("pods", shares), 201)

    async def runs() -> bool:
        return (await cluster.client.get(Pod, "a", cluster.namespace)).status.phase == "Running"

    await cluster.eventually(runs)


async def test_nobody_but_the_scheduler_decides_where_pods_go(installed: Installed) -> None:
    here, _ = await on_nodes(installed.cluster)
    body = bind_request("here", here)
    user, binder = await installed.acting("user:jane"), await installed.acting("binder")
    scheduler = await installed.acting("scheduler")
    await installed.refused(
        lambda: user.create(BIND_REQUESTS, body, dryRun="All"), "user:jane may not write BindRequests"
    )
    await installed.answered(lambda: binder.create(BIND_REQUESTS, body), 403)
    await installed.answered(lambda: scheduler.create(BIND_REQUESTS, body), 201)
    moved = {"spec": {"selectedNode": "elsewhere"}}
    await installed.answered(lambda: user.patch(BIND_REQUESTS, "here", moved, PatchType.MERGE), 403)
    await installed.answered(lambda: user.delete(BIND_REQUESTS, "here"), 403)
    status = {"status": {"phase": "Succeeded"}}
    await installed.answered(lambda: binder.patch(BIND_REQUESTS, "here/status", status, PatchType.MERGE))
    await installed.answered(lambda: user.patch(BIND_REQUESTS, "here/status", status, PatchType.MERGE), 403)
    await installed.answered(lambda: binder.delete(BIND_REQUESTS, "here"))
