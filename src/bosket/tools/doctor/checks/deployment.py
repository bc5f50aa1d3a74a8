"""What the operator says of its work, and whether the services that it deployed are there; who schedules at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bosket.api.apps import Deployment
from bosket.api.coordination import Lease
from bosket.api.core import Pod, PodTemplateSpec
from bosket.api.kai import CONFIG_NAME, Config, SchedulingShard
from bosket.api.object import Condition
from bosket.tools.doctor.finding import Finding, Severity, counted, named, some
from bosket.tools.doctor.installation import Installation

#: What must be true of a Config and a shard; the others follow from these, or are true only for a while.
_CONDITIONS: Final = ("Deployed", "Available", "DependenciesFulfilled", "Ready")
#: The operator's own word for a usage database that doesn't answer; `checks.shard_setting` tells of it.
PROMETHEUS_FAILED: Final = "prometheus_connection_failed"
#: Why containers wait without ever starting.
_STUCK: Final = frozenset(
    {"CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "CreateContainerConfigError"}
)


def check_conditions(installation: Installation) -> Iterator[Finding]:
    """What the operator itself says is wrong, in the status of Config and shards."""
    bundle = installation.bundle
    for config in bundle.of(Config):
        if config.metadata.name != CONFIG_NAME:
            yield Finding(
                "config-ignored",
                Severity.WARNING,
                named(config),
                "metadata.name",
                f"only the Config that is called {CONFIG_NAME} counts, so nothing that this one says has an effect",
                f"move its settings to {CONFIG_NAME}, and delete it",
                f"kubectl delete config.kai.scheduler {config.metadata.name}",
            )
        else:
            yield from _of_conditions(named(config), config.status.conditions, f"config.kai.scheduler {CONFIG_NAME}")
    for shard in bundle.of(SchedulingShard):
        yield from _of_conditions(named(shard), shard.status.conditions, f"schedulingshard {shard.metadata.name}")
    if installation.config is not None and not bundle.of(SchedulingShard):
        yield Finding(
            "shard-none",
            Severity.ERROR,
            named(installation.config),
            "",
            "there is no SchedulingShard, so the operator starts no scheduler",
            "create one",
            "kubectl apply -f - <<< '{apiVersion: kai.scheduler/v1, kind: SchedulingShard, metadata: {name: default}}'",
        )


def _of_conditions(name: str, conditions: tuple[Condition, ...], what: str) -> Iterator[Finding]:
    """The first that isn't true: the others mostly follow from it."""
    by_type = {each.type: each for each in conditions}
    for kind in _CONDITIONS:
        condition = by_type.get(kind)
        if condition is None or condition.status == "True" or condition.reason == PROMETHEUS_FAILED:
            continue
        yield Finding(
            "condition-false",
            Severity.ERROR,
            name,
            f"status.conditions[{kind}]",
            f"the operator says that it isn't {kind}: {condition.message or condition.reason}",
            "look at what the message names, and at the operator's log",
            f"kubectl describe {what}",
        )
        return


def check_deployments(installation: Installation) -> Iterator[Finding]:
    """Deployments that are missing, or whose pods don't run."""
    bundle, namespace = installation.bundle, installation.namespace
    deployments = {each.metadata.name: each for each in bundle.of(Deployment) if each.metadata.namespace == namespace}
    for deployment in deployments.values():
        yield from _of_deployment(deployment, bundle.of(Pod))
    if installation.config is None:
        return
    scheduler = installation.spec.scheduler
    service = scheduler.service if scheduler else None
    if service is not None and service.enabled is False:
        return
    for shard in bundle.of(SchedulingShard):
        name = f"{installation.scheduler_name}-{shard.metadata.name}"
        if name not in deployments:
            yield Finding(
                "deployment-missing",
                Severity.ERROR,
                named(shard),
                "",
                f"it has no Deployment {namespace}/{name}, so nobody schedules its nodes",
                "see whether the operator runs, and what it logs",
                f"kubectl logs -n {namespace} deployment/kai-operator",
            )


def _of_deployment(deployment: Deployment, pods: tuple[Pod, ...]) -> Iterator[Finding]:
    wanted = 1 if deployment.spec.replicas is None else deployment.spec.replicas
    there = deployment.status.availableReplicas
    if not wanted:
        name, namespace = deployment.metadata.name, deployment.metadata.namespace
        yield Finding(
            "deployment-stopped",
            Severity.WARNING,
            named(deployment),
            "spec.replicas",
            "it is scaled to 0, so nobody does its work",
            "start it, or switch the service off in the Config",
            f"kubectl scale -n {namespace} deployment/{name} --replicas=2",
        )
    if there >= wanted:
        return
    selector = deployment.spec.selector.matchLabels if deployment.spec.selector else {}
    own = [
        pod
        for pod in pods
        if pod.metadata.namespace == deployment.metadata.namespace
        and selector
        and selector.items() <= pod.metadata.labels.items()
    ]
    reasons = dict.fromkeys(reason for pod in own for reason in _stuck(pod))
    why = f": {some(reasons)}" if reasons else ""
    yield Finding(
        "deployment-unavailable",
        Severity.WARNING if there else Severity.ERROR,
        named(deployment),
        "status.availableReplicas",
        f"{there} of {wanted} replicas {'is' if there == 1 else 'are'} available{why}",
        "see why its pods don't start",
        f"kubectl describe pods -n {deployment.metadata.namespace} "
        f"-l {','.join(f'{key}={value}' for key, value in selector.items())}",
    )


def _stuck(pod: Pod) -> Iterator[str]:
    for status in pod.status.containerStatuses:
        waiting = status.state.waiting if status.state else None
        if waiting is not None and waiting.reason in _STUCK:
            yield f"{waiting.reason} of {status.image or pod.metadata.name}"


def check_scheduler(installation: Installation) -> Iterator[Finding]:
    """Whether there is any sign of a scheduler at all, and whether there are two."""
    bundle = installation.bundle
    if not bundle.knows(Lease) or bundle.runs_in_process:
        return
    own = [each for each in bundle.of(Deployment) if each.metadata.namespace == installation.namespace]
    kai = [each for each in own if is_kai_scheduler(each) and (each.spec.replicas is None or each.spec.replicas)]
    leases = [
        each
        for each in bundle.of(Lease)
        if each.metadata.name == "scheduler" and each.metadata.namespace == installation.namespace
    ]
    ours = [each for each in leases if each.spec.holderIdentity]
    names = {installation.scheduler_name, *(f"{installation.scheduler_name}-{pool}" for pool in installation.pools)}
    held = [each for each in bundle.of(Lease) if each.metadata.name in names and each.spec.holderIdentity]
    if kai and ours:
        yield Finding(
            "scheduler-twice",
            Severity.ERROR,
            named(kai[0]),
            "spec.replicas",
            f"KAI's scheduler is deployed while {ours[0].spec.holderIdentity} holds the lease of Bosket's: both decide "
            "on the same pods",
            "stop one of them",
            f"kubectl scale -n {installation.namespace} deployment/{kai[0].metadata.name} --replicas=0",
        )
    others = [each for each in own if each.metadata.name.startswith(installation.scheduler_name)]
    if not (kai or ours or held or others or bundle.of(SchedulingShard)):
        waiting = [pod for pod in installation.own_pods if not pod.spec.nodeName]
        waits = f", which keeps {counted(len(waiting), 'pod')} waiting" if waiting else ""
        yield Finding(
            "scheduler-none",
            Severity.ERROR if waiting else Severity.WARNING,
            f"Namespace {installation.namespace}",
            "",
            f"nobody runs the scheduler: there is neither a Deployment nor a lease that somebody holds{waits}",
            "install Bosket in the cluster, or run its services from here",
            "bosket run podgrouper podgroup-controller queue-controller scheduler binder",
        )


def is_kai_scheduler(deployment: Deployment) -> bool:
    """Whether a Deployment runs the scheduler that is written in Go: it has its garbage collector's knob."""
    template = deployment.spec.template
    return not runs_bosket(template) and any(
        variable.name == "GOGC" for container in template.spec.containers for variable in container.env
    )


def kai_deployments(installation: Installation) -> list[Deployment]:
    """Those that run KAI's services, with pods or without."""
    return [
        each
        for each in installation.bundle.of(Deployment)
        if each.metadata.namespace == installation.namespace and not runs_bosket(each.spec.template)
    ]


def runs_bosket(template: PodTemplateSpec) -> bool:
    """Whether pods of this template run one of Bosket's services: its program is named, or its image."""
    return any(
        "bosket" in (*container.command, *container.args)
        or container.image.rpartition("/")[2].partition(":")[0].partition("@")[0] == "bosket"
        for container in template.spec.containers
    )
