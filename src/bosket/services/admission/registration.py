"""Webhook configurations of KAI's admission, by the names that KAI's operator uses.

Only pods for our scheduler match, or pods without a scheduler name in a labelled namespace; all other pods are created
even when the webhook is down. Ours are not: without the mutation their containers would use the wrong GPU. Queues, pod
groups and topologies pass when the webhook is down: the scheduler ignores invalid ones. A call costs the API server as
much as a write, so match conditions exclude updates without anything to check.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from bosket.api.admission import (
    MatchCondition,
    MutatingWebhook,
    MutatingWebhookConfiguration,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
)
from bosket.api.keys import (
    APP_LABEL,
    NAMESPACE_SCHEDULER_LABEL,
    POD_GROUP_ANNOTATION,
    PRIORITY_CLASS_LABEL,
    PROJECT_LABEL,
    RAY_PRIORITY_CLASS_LABEL,
)
from bosket.api.object import LabelSelector, LabelSelectorRequirement, ObjectMeta
from bosket.runtime.webhook.registration import TIMEOUT_SECONDS, Configuration, Reach
from bosket.services.admission.namespace_policy import DAEMON_SET, DEFAULT_SCHEDULER
from bosket.services.admission.options import Options
from bosket.services.admission.pod import SHARING_ANNOTATIONS
from bosket.services.admission.review_handlers import (
    MUTATE_PODS,
    VALIDATE_ACCESS,
    VALIDATE_POD_GROUPS,
    VALIDATE_PODS,
    VALIDATE_QUEUES,
    VALIDATE_TOPOLOGIES,
)
from bosket.services.admission.rule import rules

#: Pods that name no scheduler, and aren't bound to be on their node.
_UNCLAIMED: Final = (
    MatchCondition(name="names-no-scheduler", expression=f"object.spec.schedulerName == '{DEFAULT_SCHEDULER}'"),
    MatchCondition(
        name="is-no-daemon",
        expression="!has(object.metadata.ownerReferences) || "
        f"!object.metadata.ownerReferences.exists(owner, owner.kind == '{DAEMON_SET}')",
    ),
)
#: The rules read annotations and the spec.
_POD_CHANGES: Final = MatchCondition(
    name="pod-changes",
    expression="request.operation != 'UPDATE' || object.spec != oldObject.spec || "
    "has(object.metadata.annotations) != has(oldObject.metadata.annotations) || "
    "(has(object.metadata.annotations) && object.metadata.annotations != oldObject.metadata.annotations)",
)
#: So do rules about who may use what, and the labels.
_POD_OR_LABELS_CHANGE: Final = replace(
    _POD_CHANGES,
    expression=f"{_POD_CHANGES.expression} || has(object.metadata.labels) != has(oldObject.metadata.labels) || "
    "(has(object.metadata.labels) && object.metadata.labels != oldObject.metadata.labels)",
)
#: All rules about pod groups are about sub-groups.
_HAS_SUB_GROUPS: Final = MatchCondition(
    name="has-sub-groups", expression="has(object.spec.subGroups) || has(object.spec.minSubGroup)"
)
_GROUP_CHANGES: Final = MatchCondition(
    name="spec-changes", expression="request.operation != 'UPDATE' || object.spec != oldObject.spec"
)


def configurations(options: Options, reach: Reach, trusted_pem: bytes) -> list[Configuration]:
    """The objects as they should be. Every field that a server would fill in is there, so that they can be compared."""
    host = f"{options.service_name}.{reach.namespace}.svc"
    meta = ObjectMeta(labels={APP_LABEL: options.service_name})
    asked = rules(options)

    def asked_at(path: str) -> dict[str, Any]:
        return {
            "clientConfig": reach.client_config(path, trusted_pem),
            "rules": asked[path],
            "admissionReviewVersions": ("v1",),
            "sideEffects": "None",
            "matchPolicy": "Equivalent",
            "timeoutSeconds": TIMEOUT_SECONDS,
        }

    pods: dict[str, Any] = {
        "name": host,
        "failurePolicy": "Fail",
        "namespaceSelector": _namespaces(options, reach.namespace),
        "objectSelector": LabelSelector(matchLabels=dict(options.pod_label_selector)),
        "matchConditions": (_own_pods(options.pods.scheduler_name),),
    }
    mutating = MutatingWebhookConfiguration(
        metadata=replace(meta, name=options.mutating_configuration_name),
        webhooks=_pod_mutation(options, reach.namespace, {**pods, **asked_at(MUTATE_PODS)}),
    )
    validate = ValidatingWebhook(
        **{**pods, "matchConditions": (*pods["matchConditions"], *_worth_checking(options))},
        **asked_at(VALIDATE_PODS),
    )
    topologies = _checked(f"topology.{host}", asked_at(VALIDATE_TOPOLOGIES))
    queues = _checked("queue-validation.kai.scheduler", asked_at(VALIDATE_QUEUES))
    groups = _checked(
        "podgroup-validation.kai.scheduler", asked_at(VALIDATE_POD_GROUPS), _HAS_SUB_GROUPS, _GROUP_CHANGES
    )
    access: tuple[ValidatingWebhook, ...] = ()
    if options.access_control:
        access = (_access(f"access.{host}", options, reach.namespace, asked_at(VALIDATE_ACCESS)),)
        groups = replace(groups, failurePolicy="Fail", matchConditions=(_GROUP_CHANGES,))
    validating = (
        (options.validating_configuration_name, (validate, topologies, *access)),
        (options.queue_configuration_name, (queues,)),
        (options.pod_group_configuration_name, (groups,)),
    )
    return [
        mutating,
        *(
            ValidatingWebhookConfiguration(metadata=replace(meta, name=name), webhooks=webhooks)
            for name, webhooks in validating
        ),
    ]


def _pod_mutation(options: Options, namespace: str, common: dict[str, Any]) -> tuple[MutatingWebhook, ...]:
    """For pods that are ours, and before it for those that become so by what their namespace says."""
    own = MutatingWebhook(
        reinvocationPolicy="IfNeeded",
        **common,
    )
    # The label says that the namespace's pods belong into queues: a pod that bypasses them is worse than one that
    # waits.
    taken_over = replace(
        own,
        name=f"namespace-policy.{own.name}",
        namespaceSelector=_policy_namespaces(options, namespace),
        matchConditions=_UNCLAIMED,
    )
    return taken_over, own


def _namespaces(options: Options, namespace: str) -> LabelSelector:
    """Not those that a cluster lives on."""
    expressions = [
        LabelSelectorRequirement(key="kubernetes.io/metadata.name", operator="NotIn", values=("kube-system", namespace))
    ]
    if options.queue_label_selector:
        expressions.append(LabelSelectorRequirement(key=options.queue_label_key, operator="Exists"))
    return LabelSelector(matchLabels=dict(options.namespace_label_selector), matchExpressions=tuple(expressions))


def _policy_namespaces(options: Options, namespace: str) -> LabelSelector:
    """Those whose pods are ours unless they say otherwise."""
    wanted = LabelSelectorRequirement(
        key=NAMESPACE_SCHEDULER_LABEL, operator="In", values=(options.pods.scheduler_name,)
    )
    selected = _namespaces(options, namespace)
    return replace(selected, matchExpressions=(*selected.matchExpressions, wanted))


def _own_pods(scheduler_name: str) -> MatchCondition:
    escaped = scheduler_name.replace("\\", "\\\\").replace("'", "\\'")
    return MatchCondition(name="scheduler-name-match", expression=f"object.spec.schedulerName == '{escaped}'")


def _worth_checking(options: Options) -> tuple[MatchCondition, ...]:
    """Pods of which something may be refused; see `pod.may_be_refused`."""
    if options.access_control:
        return (_POD_OR_LABELS_CHANGE,)
    if options.pods.block_nvidia_visible_devices:
        return (_POD_CHANGES,)
    keys = ", ".join(f"'{key}'" for key in SHARING_ANNOTATIONS)
    shares = f"has(object.metadata.annotations) && [{keys}].exists(key, key in object.metadata.annotations)"
    return (MatchCondition(name="asks-for-parts-of-gpus", expression=shares), _POD_CHANGES)


def _access(name: str, options: Options, namespace: str, common: dict[str, Any]) -> ValidatingWebhook:
    """For kinds whose pods are grouped: their author is known when they are written, and not when their pods are."""
    # Of Kubernetes' own kinds, which everybody uses, only those that name something: others pass while we are down.
    # Everywhere that `access.uses` finds one in these kinds: the labels of a CronJob's jobs are in their own template.
    labels = (options.queue_label_key, PROJECT_LABEL, PRIORITY_CLASS_LABEL, RAY_PRIORITY_CLASS_LABEL)
    keys = f"[{', '.join(map(repr, labels))}]"
    template, job = "object.spec.template", "object.spec.jobTemplate"
    named = " || ".join((_named_in("object.metadata", keys), _template_names(template, keys)))
    of_jobs = f"(has({job}.metadata) && {_named_in(f'{job}.metadata', keys)})"
    in_cron_job = (
        f"(request.resource.resource == 'cronjobs' && ({of_jobs} || {_template_names(f'{job}.spec.template', keys)}))"
    )
    condition = MatchCondition(
        name="names-a-queue-or-priority-class",
        expression=f"!(request.resource.group in ['', 'apps', 'batch']) || {named} || {in_cron_job}",
    )
    return ValidatingWebhook(
        name=name,
        failurePolicy="Fail",
        namespaceSelector=_namespaces(options, namespace),
        objectSelector=LabelSelector(),
        matchConditions=(condition,),
        **common,
    )


def _named_in(metadata: str, keys: str) -> str:
    labels, annotations = f"{metadata}.labels", f"{metadata}.annotations"
    return (
        f"((has({labels}) && {keys}.exists(key, key in {labels})) || "
        f"(has({annotations}) && '{POD_GROUP_ANNOTATION}' in {annotations}))"
    )


def _template_names(path: str, keys: str) -> str:
    spec = f"{path}.spec"
    return (
        f"(has({path}) && ((has({path}.metadata) && {_named_in(f'{path}.metadata', keys)}) || "
        f"(has({spec}) && has({spec}.priorityClassName))))"
    )


def _checked(name: str, common: dict[str, Any], *conditions: MatchCondition) -> ValidatingWebhook:
    return ValidatingWebhook(
        name=name,
        failurePolicy="Ignore",
        namespaceSelector=LabelSelector(),
        objectSelector=LabelSelector(),
        matchConditions=conditions,
        **common,
    )
