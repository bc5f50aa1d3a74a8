"""Each broken installation is found: exactly that, in the object and the field that is wrong."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from bosket.api.admission import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from bosket.api.apiextensions import CustomResourceDefinition
from bosket.api.apps import Deployment
from bosket.api.coordination import Lease
from bosket.api.core import EndpointAddress, Endpoints, EndpointSubset, Pod, Service, ServicePort, ServiceSpec
from bosket.api.kai import Config, SchedulingShard
from bosket.api.object import KubeObject, ObjectMeta
from bosket.grove.admission.registration import configurations
from bosket.runtime.certificates import make_authority
from bosket.runtime.webhook.registration import Reach
from bosket.tools.doctor.bundle import AccessNeed, Refused
from bosket.tools.doctor.finding import Severity
from tests.diagnosis.installed import (
    NOW,
    SYSTEM,
    conditions,
    deployment,
    edited,
    findings,
    installed,
    webhooks,
    without,
)

QUEUES = "queues.scheduling.run.ai"
GROUPS = "podgroups.scheduling.run.ai"
MUTATING, VALIDATING = "mutating-kai-admission", "validating-kai-admission"
HOURS = timedelta(hours=1).total_seconds()
YEARS = 366 * 24 * HOURS


def told(objects: list[KubeObject], **fields: Any) -> list[tuple[str, str, str]]:
    found = findings(objects, **fields)
    for each in found:
        assert each.problem, each
        assert each.remedy, each
    return [(each.code, each.object, each.field) for each in found]


# ── definitions ──


def test_a_missing_definition() -> None:
    broken = without(installed(), CustomResourceDefinition, QUEUES)
    assert told(broken) == [("crd-missing", f"CustomResourceDefinition {QUEUES}", "")]


def test_a_definition_that_the_cluster_does_not_serve() -> None:
    refused = [
        {"type": "NamesAccepted", "status": "False", "message": '"pg" is already in use'},
        {"type": "Established", "status": "False", "reason": "NotAccepted"},
    ]
    broken = edited(installed(), CustomResourceDefinition, GROUPS, "status.conditions", refused)
    (found,) = findings(broken)
    assert (found.code, found.severity) == ("crd-not-established", Severity.ERROR)
    assert '"pg" is already in use' in found.problem


def test_a_definition_without_the_version_that_services_speak() -> None:
    broken = edited(installed(), CustomResourceDefinition, QUEUES, "spec.versions.0.name", "v1")
    (found,) = findings(broken)
    assert (found.code, found.field) == ("crd-version-missing", "spec.versions")
    assert "served: v1" in found.problem


def test_a_definition_without_a_status_subresource() -> None:
    broken = edited(installed(), CustomResourceDefinition, QUEUES, "spec.versions.0.subresources", None)
    assert [code for code, _, _ in told(broken)] == ["crd-status-missing"]


def test_a_definition_of_an_older_release_without_fields_that_are_written() -> None:
    path = "spec.versions.0.schema.openAPIV3Schema.properties.status.properties.phase"
    broken = edited(installed(), CustomResourceDefinition, GROUPS, path, None)
    (found,) = findings(broken)
    assert found.code == "crd-fields-missing"
    assert "status.phase" in found.problem
    assert found.command == "bosket crds --install"


# ── Config, shards, deployments, leases ──


def test_a_config_that_is_not_ready_says_why() -> None:
    status = msgspec.to_builtins(conditions(Available="deployment binder is not available"))
    (found,) = findings(edited(installed(), Config, "kai-config", "status.conditions", status))
    assert (found.code, found.field) == ("condition-false", "status.conditions[Available]")
    assert "deployment binder is not available" in found.problem


def test_a_config_of_another_name() -> None:
    broken = [*installed(), Config(metadata=ObjectMeta(name="my-config"))]
    assert told(broken) == [("config-ignored", "Config my-config", "metadata.name")]


def test_a_shard_that_is_not_deployed() -> None:
    status = msgspec.to_builtins(conditions(Deployed="no such plugin", Ready="not ready"))
    broken = edited(installed(), SchedulingShard, "default", "status.conditions", status)
    assert told(broken) == [("condition-false", "SchedulingShard default", "status.conditions[Deployed]")]


def test_a_deployment_whose_pods_do_not_start_and_why() -> None:
    broken = edited(installed(), Deployment, "binder", "status.availableReplicas", None)
    waiting = {"waiting": {"reason": "ImagePullBackOff"}}
    status = {"name": "main", "ready": False, "restartCount": 0, "image": "nowhere/bosket:1", "imageID": ""}
    crashing = msgspec.convert(
        {
            "metadata": {"name": "binder-0", "namespace": SYSTEM, "labels": {"app": "binder"}},
            "status": {"phase": "Pending", "containerStatuses": [{**status, "state": waiting}]},
        },
        Pod,
    )
    (found,) = findings([*broken, crashing])
    assert (found.code, found.severity, found.object) == (
        "deployment-unavailable",
        Severity.ERROR,
        "Deployment kai-scheduler/binder",
    )
    assert "ImagePullBackOff of nowhere/bosket:1" in found.problem
    assert found.command == "kubectl describe pods -n kai-scheduler -l app=binder"


def test_a_shard_without_a_scheduler() -> None:
    broken = without(installed(), Deployment, "kai-scheduler-default")
    assert told(broken) == [("deployment-missing", "SchedulingShard default", "")]


def test_a_config_without_any_shard() -> None:
    broken = without(installed(), SchedulingShard)
    assert told(broken) == [("shard-none", "Config kai-config", "")]


def test_a_lease_that_its_holder_no_longer_renews() -> None:
    broken = edited(installed(), Lease, "binder", "spec.renewTime", "2026-01-01T00:00:00.000000Z")
    assert told(broken) == [("lease-expired", "Lease kai-scheduler/binder", "spec.renewTime")]


def test_a_lease_that_nobody_holds() -> None:
    broken = edited(installed(), Lease, "scheduler", "spec.holderIdentity", "")
    assert told(broken) == [("lease-not-held", "Lease kai-scheduler/scheduler", "spec.holderIdentity")]


def test_a_service_that_was_stopped() -> None:
    broken = edited(installed(), Deployment, "binder", "spec.replicas", 0)
    assert told(broken) == [("deployment-stopped", "Deployment kai-scheduler/binder", "spec.replicas")]


def test_leases_that_kai_left_behind() -> None:
    name = "2ad35f9c.kai.scheduler"
    left = [*installed(), Lease(metadata=ObjectMeta(name=name, namespace=SYSTEM))]
    assert told(left) == [("lease-left-over", f"Lease {SYSTEM}/{name}", "")]


def test_nobody_runs_a_scheduler() -> None:
    broken = installed()
    for kind in (Deployment, Lease, Config, SchedulingShard):
        broken = without(broken, kind)
    (found,) = findings(broken)
    assert (found.code, found.severity) == ("scheduler-none", Severity.ERROR)
    assert "keeps 2 pods waiting" in found.problem


def test_two_schedulers_of_which_one_is_kais() -> None:
    environment = [{"name": "GOGC", "value": "400"}]
    path = "spec.template.spec.containers.0"
    broken = edited(installed(), Deployment, "kai-scheduler-default", f"{path}.env", environment)
    broken = edited(broken, Deployment, "kai-scheduler-default", f"{path}.args", ["--scheduler-conf=/c.yaml"])
    broken = edited(broken, Deployment, "kai-scheduler-default", f"{path}.image", "example.com/kai/scheduler:1.0")
    assert [code for code, _, _ in told(broken)] == ["scheduler-twice"]


def test_services_of_two_versions() -> None:
    broken = [*without(installed(), Deployment, "binder"), deployment("binder", image="example.com/bosket:0.9")]
    (found,) = findings(broken)
    assert found.code == "versions-mixed"
    assert "0.9: binder" in found.problem


def test_a_kubernetes_that_is_too_old() -> None:
    assert told(installed(), server_version="v1.28.3") == [("kubernetes-old", "Kubernetes v1.28.3", "")]


# ── webhooks ──


def test_a_webhook_whose_service_is_gone() -> None:
    found = findings(without(installed(), Service))
    assert {each.code for each in found} == {"webhook-service-missing"}
    by_severity = {each.object: each.severity for each in found}
    assert by_severity[f"MutatingWebhookConfiguration {MUTATING}"] is Severity.ERROR  # pods can't be created
    assert by_severity["ValidatingWebhookConfiguration kai-queue-validation-v2"] is Severity.WARNING  # queues can


def test_a_webhook_with_nobody_behind_its_service() -> None:
    assert {code for code, _, _ in told(without(installed(), Endpoints))} == {"webhook-without-endpoints"}


def test_a_webhook_that_names_a_port_which_its_service_lacks() -> None:
    broken = edited(installed(), Service, "admission", "spec.ports", [{"port": 8443}])
    assert {code for code, _, _ in told(broken)} == {"webhook-port-missing"}


def test_a_webhook_without_a_certificate_authority() -> None:
    broken = edited(installed(), MutatingWebhookConfiguration, MUTATING, "webhooks.0.clientConfig.caBundle", None)
    ((code, configuration, field),) = told(broken)
    assert (code, configuration) == ("webhook-ca-missing", f"MutatingWebhookConfiguration {MUTATING}")
    assert field.endswith("].clientConfig.caBundle")


def test_a_webhook_whose_authority_is_unreadable() -> None:
    path = "webhooks.0.clientConfig.caBundle"
    broken = edited(installed(), MutatingWebhookConfiguration, MUTATING, path, "bm9uc2Vuc2U=")
    assert [code for code, _, _ in told(broken)] == ["webhook-ca-unreadable"]


def test_a_webhook_that_trusts_somebody_else() -> None:
    broken = without(without(installed(), MutatingWebhookConfiguration), ValidatingWebhookConfiguration)
    orphan_tasks = webhooks(make_authority("another").cert_pem)
    assert {code for code, _, _ in told([*broken, *orphan_tasks])} == {"webhook-ca-mismatch"}


def test_a_serving_certificate_that_ends_soon_or_has_ended() -> None:
    soon, later = NOW + YEARS - 3 * 24 * HOURS, NOW + YEARS
    ((code, secret, _),) = told(installed(soon), now=soon)
    assert (code, secret) == ("certificate-expires", f"Secret {SYSTEM}/kai-admission-webhook-tls-secret")
    assert [code for code, _, _ in told(installed(later), now=later)] == ["certificate-expired"]


def test_an_authority_that_has_ended() -> None:
    later = NOW + 11 * YEARS
    codes = {code for code, _, _ in told(installed(later), now=later)}
    assert codes == {"certificate-expired", "webhook-ca-expired"}


def test_a_webhook_that_fails_closed_for_everybodys_pods() -> None:
    path = "webhooks.0.matchConditions"
    broken = edited(installed(), ValidatingWebhookConfiguration, VALIDATING, path, None)
    assert [code for code, _, _ in told(broken)] == ["webhook-reaches-all"]


def test_groves_admission_that_has_not_registered_its_webhooks() -> None:
    """Their configurations come empty with the chart; with all that they need, nothing is wrong."""
    grove = Reach(SYSTEM, "grove-operator", service_port=9443)
    served = (
        Service(
            metadata=ObjectMeta(name="grove-operator", namespace=SYSTEM),
            spec=ServiceSpec(ports=(ServicePort(port=9443),)),
        ),
        Endpoints(
            metadata=ObjectMeta(name="grove-operator", namespace=SYSTEM),
            subsets=(EndpointSubset(addresses=(EndpointAddress(ip="10.0.0.9"),)),),
        ),
        deployment("grove-admission"),
    )
    filled = configurations(grove, make_authority("g").cert_pem, authorizer=True)
    assert told([*installed(), *served, *filled]) == []
    empty = [msgspec.structs.replace(each, webhooks=()) for each in filled]
    found = findings([*installed(), *served, *empty])
    assert [(each.code, each.object) for each in found] == [
        ("webhooks-missing", f"Deployment {SYSTEM}/grove-admission")
    ]
    assert "deployment/grove-admission" in found[0].command


def test_admission_without_any_webhook() -> None:
    broken = without(without(installed(), MutatingWebhookConfiguration), ValidatingWebhookConfiguration)
    assert told(broken) == [("webhooks-missing", "Config kai-config", "spec.admission")]


# ── rights ──


def test_a_service_account_that_lacks_rights() -> None:
    lacking = tuple(
        Refused(AccessNeed("binder", verb, group, resource))
        for verb, group, resource in (
            ("create", "", "pods/binding"),
            ("patch", "scheduling.run.ai", "bindrequests/status"),
        )
    )
    (found,) = findings(installed(), refused=lacking)
    assert (found.code, found.object) == ("access-missing", "ServiceAccount kai-scheduler/binder")
    assert "create pods/binding" in found.problem
    assert "patch bindrequests.scheduling.run.ai/status" in found.problem
    assert found.command == (
        "kubectl auth can-i create pods --subresource=binding --all-namespaces "
        "--as=system:serviceaccount:kai-scheduler:binder"
    )
