"""Plan: all objects that a Config deploys. Pure: objects in, objects out."""

from __future__ import annotations

from collections.abc import Iterable

from bosket.api.kai.shard import SchedulingShard
from bosket.services.operator import numa
from bosket.services.operator.common import Common
from bosket.services.operator.manifest import Manifest, manifest
from bosket.services.operator.monitoring import prometheus, service_monitor
from bosket.services.operator.operand import ADMISSION, OPERANDS, webhook_configurations
from bosket.services.operator.shard import SCHEDULER, schedulers_are_on
from bosket.services.operator.workload import (
    deployment,
    disruption_budget,
    service,
    service_account,
    vertical_autoscaler,
)


def plan(common: Common, shards: Iterable[SchedulingShard]) -> list[Manifest]:
    """Objects in the order in which they are made: who somebody is before what they run."""
    spec = common.config.spec
    objects = [service_account(common, SCHEDULER)] if schedulers_are_on(common) else []
    for operand in OPERANDS:
        section = operand.read(spec, common)
        if section.service.enabled is False:
            continue
        workload = operand.workload(section, common)
        objects += [
            service_account(common, operand.name),
            service(common, operand.name, section.ports),
            deployment(common, workload),
            *disruption_budget(common, workload),
            *vertical_autoscaler(common, workload, section.vpa),
            *service_monitor(common, operand.name),
        ]
        if operand.name == ADMISSION:
            objects += _webhooks(common)
    return [*objects, *numa.objects(spec, common, shards), *prometheus(common)]


def _webhooks(common: Common) -> list[Manifest]:
    """Webhook configurations without webhooks: the serving process fills them in, with its CA bundle.

    So an API server never asks where nobody answers yet; and nothing is left of them when admission is taken away.
    """
    names = webhook_configurations(common.config.spec)
    validating = [names.validating]
    validating += [names.queues] if names.checks_queues else []
    validating += [names.pod_groups] if names.checks_pod_groups else []
    group = "admissionregistration.k8s.io/v1"
    return [
        manifest(group, "MutatingWebhookConfiguration", names.mutating, "", app=ADMISSION),
        *(manifest(group, "ValidatingWebhookConfiguration", name, "", app=ADMISSION) for name in validating),
    ]
