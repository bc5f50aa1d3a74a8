"""ValidatingAdmissionPolicies: restrictions of service accounts that roles can't express.

A role allows a verb on a kind, everywhere or in a namespace. A policy adds which objects and which fields: the exporter
of a node writes one annotation on pods of that node; the binder's ConfigMaps are those of shared GPUs. An API server
evaluates policies itself, so they hold while no service of ours answers. They say nothing about reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from bosket.api import keys
from bosket.api.grove.naming import MANAGED_BY, MANAGED_BY_LABEL, token_secret_name
from bosket.install import grove_part
from bosket.install.account import ACCOUNTS, GROVE_OPERATOR, OPERATOR, Account, account_of
from bosket.install.expression import AllOf, Expression, ReleaseNamespace, Text, Value
from bosket.install.right import owners_of_pods, read_rights
from bosket.install.template import Tree, When

ENABLED: Final = Value("policies.enabled")
_GROUP: Final = "admissionregistration.k8s.io"
_PATCHES_PODS: Final = "pods", "patch"
#: Of a bound pod: what GPUs, pod groups, queues and NUMA zones are accounted by.
GUARDED_LABELS: Final = (keys.GPU_GROUP_LABEL, keys.SUBGROUP_LABEL)
GUARDED_ANNOTATIONS: Final = (
    keys.POD_GROUP_ANNOTATION,
    keys.SKIP_PODGROUPER_ANNOTATION,
    keys.GPU_FRACTION_ANNOTATION,
    keys.GPU_MEMORY_ANNOTATION,
    keys.GPU_FRACTION_DEVICES_ANNOTATION,
    keys.GPU_FRACTION_CONTAINER_ANNOTATION,
    keys.SHARED_GPU_CONFIG_MAP_ANNOTATION,
    keys.SHARED_DEVICES_ANNOTATION,
    keys.RECEIVED_RESOURCE_TYPE_ANNOTATION,
    keys.NUMA_PREDICTED_ANNOTATION,
    keys.NUMA_OBSERVED_ANNOTATION,
)
#: What webhooks of each account may be asked about: nobody can have another's Secrets sent to it, say.
ASKED_ABOUT: Final = {
    "admission": ("pods", "podgroups", "queues", "topologies", *(plural for _, plural in owners_of_pods())),
    "grove-admission": (
        *("podcliquesets", "clustertopologybindings", "podcliques", "podcliquescalinggroups", "podgangs"),
        *("pods", "secrets", "serviceaccounts", "services", "roles", "rolebindings", "horizontalpodautoscalers"),
    ),
}
#: Of these kinds, webhooks may be asked about any object; of others, about those alone that Grove's operator made.
ASKED_ABOUT_ANY: Final = {
    "admission": ASKED_ABOUT["admission"],
    "grove-admission": ("podcliquesets", "clustertopologybindings"),
}
_SHARED_GPU_LABEL: Final = "bosket.dev/shared-gpu"
_NODE: Final = "authentication.kubernetes.io/node-name"


def policies() -> list[Tree]:
    """Each policy with its binding, in an order in which they can be applied."""
    return [
        *_in_force(ENABLED, "bosket-numa-exporter", _numa_exporter()),
        *_in_force(ENABLED, "bosket-service-pods", _service_pods()),
        *_in_force(ENABLED, "bosket-webhook-configurations", _webhook_configurations()),
        *_in_force(ENABLED, "bosket-binder-config-maps", _binder_config_maps()),
        *_in_force(ENABLED, "bosket-scheduler-config-maps", _scheduler_config_maps()),
        *_in_force(ENABLED, "bosket-charged-pods", _charged_pods()),
        *_in_force(AllOf((ENABLED, grove_part.ENABLED)), "bosket-grove-operator", _grove_operator()),
        *_in_force(AllOf((ENABLED, Value("accessControl.enabled"))), "bosket-bind-requests", _bind_requests()),
    ]


def _in_force(condition: Expression, name: str, spec: dict[str, Any]) -> list[Tree]:
    metadata = {"name": name}
    policy = {"apiVersion": f"{_GROUP}/v1", "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": spec}
    bound = {"policyName": name, "validationActions": ["Deny"]}
    binding = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata,
        "spec": bound,
    }
    return [When(condition, policy), When(condition, binding)]


# --- the policies


def _numa_exporter() -> dict[str, Any]:
    """It runs on every node with the same account. Its token says on which, and that is checked."""
    extra = "request.userInfo.extra"
    has_node = f"has({extra}) && '{_NODE}' in {extra} && size({extra}['{_NODE}']) > 0"
    return _policy(
        _rules("", "v1", ["pods"], "UPDATE"),
        [_by(_account("numa-exporter"))],
        {
            "node": f"{has_node} ? string({extra}['{_NODE}'][0]) : ''",
            **_maps("annotations"),
        },
        [
            (
                "variables.node != '' && has(object.spec.nodeName) && object.spec.nodeName == variables.node",
                "'the NUMA exporter of node \"' + variables.node + '\" may not change pod ' + "
                "object.metadata.namespace + '/' + object.metadata.name + ', which is not on that node'",
            ),
            (
                f"{_same('spec')} && {_same_metadata('labels', 'ownerReferences', 'finalizers')} && "
                + _only_differ("annotations", keys.NUMA_OBSERVED_ANNOTATION),
                f"'the NUMA exporter may change nothing but the annotation {keys.NUMA_OBSERVED_ANNOTATION} of pods'",
            ),
        ],
    )


def _service_pods() -> dict[str, Any]:
    """Services label and annotate pods of others; none of them has to change what runs in one."""
    accounts = [each for each in _who_patch_pods() if each.service != "numa-exporter"]
    gates = [each for each in accounts if each.is_grove]
    return _policy(
        _rules("", "v1", ["pods"], "UPDATE"),
        [_by(*accounts)],
        {},
        [
            (
                f"{_same('spec.containers')} && {_same('spec.initContainers')}",
                "request.userInfo.username + ' may not change the containers of pods'",
            ),
            (
                Text(("request.userInfo.username in ", *_users(gates), f" || {_same('spec')}")),
                "request.userInfo.username + ' may change labels and annotations of pods, not their spec'",
            ),
        ],
    )


def _webhook_configurations() -> dict[str, Any]:
    """`create` can't be limited to names by a role."""
    accounts = [each for each in ACCOUNTS if _webhook_names(each)]
    names: list[str | Expression] = []
    asked: list[str | Expression] = []
    unselected: list[str | Expression] = []
    for position, account in enumerate(accounts):
        service = "admission" if account == OPERATOR else account.name
        separator = ", " if position else ""
        names += [separator, *_user(account), f": {_list(_webhook_names(account))}"]
        asked += [separator, *_user(account), f": {_list(ASKED_ABOUT[service])}"]
        unselected += [separator, *_user(account), f": {_list(ASKED_ABOUT_ANY[service])}"]
    labels = "hook.objectSelector.matchLabels"
    kinds = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
    return _policy(
        _rules(_GROUP, "v1", kinds, "CREATE", "UPDATE"),
        [_by(*accounts)],
        {
            "names": Text(("{", *names, "}[request.userInfo.username]")),
            "asked": Text(("{", *asked, "}[request.userInfo.username]")),
            "unselected": Text(("{", *unselected, "}[request.userInfo.username]")),
        },
        [
            (
                "object.metadata.name in variables.names",
                "request.userInfo.username + ' may not register webhooks as ' + object.metadata.name",
            ),
            (
                "!has(object.webhooks) || object.webhooks.all(hook, !has(hook.rules) || hook.rules.all(each, "
                "each.resources.all(resource, resource in variables.asked)))",
                "request.userInfo.username + ' may not have webhooks asked about other kinds than its own'",
            ),
            (
                "!has(object.webhooks) || object.webhooks.all(hook, !has(hook.rules) || (has(hook.objectSelector) && "
                f"has({labels}) && '{MANAGED_BY_LABEL}' in {labels} && {labels}['{MANAGED_BY_LABEL}'] == "
                f"'{MANAGED_BY}') || hook.rules.all(each, each.resources.all(resource, "
                "resource in variables.unselected)))",
                "request.userInfo.username + ' may have webhooks asked about kinds of others only with the "
                f"objectSelector {MANAGED_BY_LABEL}={MANAGED_BY}'",
            ),
        ],
    )


def _binder_config_maps() -> dict[str, Any]:
    """Those through which containers learn of their shared GPUs. Ones that KAI's binder made have no label."""
    labels = "has(oldObject.metadata.labels)"
    return _policy(
        _rules("", "v1", ["configmaps"], "CREATE", "UPDATE", "DELETE"),
        [_by(_account("binder"))],
        {
            "was": "oldObject == null || oldObject.metadata.name.contains('-shared-gpu-') || "
            f"({labels} && '{_SHARED_GPU_LABEL}' in oldObject.metadata.labels)",
            "becomes": "object == null || (has(object.metadata.labels) && "
            f"'{_SHARED_GPU_LABEL}' in object.metadata.labels && has(object.metadata.ownerReferences) && "
            "object.metadata.ownerReferences.exists(each, each.kind == 'Pod'))",
        },
        [
            (
                "variables.was && variables.becomes",
                "'the binder may write no ConfigMaps but those of pods that share GPUs, labelled "
                f"{_SHARED_GPU_LABEL} and owned by their pod'",
            )
        ],
    )


def _scheduler_config_maps() -> dict[str, Any]:
    """Its memory of evictions. Beside it are the settings of all services, the scheduler's own included."""
    return _policy(
        _rules("", "v1", ["configmaps"], "CREATE", "UPDATE", "DELETE"),
        [_by(_account("scheduler"))],
        {},
        [
            (
                f"(object == null ? oldObject : object).metadata.name.endsWith('{keys.MEMORY_SUFFIX}')",
                f"'the scheduler may write no ConfigMaps but its memory, whose name ends in {keys.MEMORY_SUFFIX}'",
            )
        ],
    )


def _charged_pods() -> dict[str, Any]:
    """What a bound pod is charged with is for the services to change; users may change all other labels."""
    prefix = keys.GPU_GROUP_LABEL_PREFIX
    return _policy(
        _rules("", "v1", ["pods"], "UPDATE"),
        [
            ("is-bound", "has(oldObject.spec.nodeName) && oldObject.spec.nodeName != ''"),
            ("is-no-service", Text(("!(request.userInfo.username in ", *_users(_who_patch_pods()), ")"))),
        ],
        {**_maps("labels"), **_maps("annotations")},
        [
            (
                f"{_list(GUARDED_LABELS)}.all(key, {_equal('labels')}) && "
                f"variables.labels.all(key, !key.startsWith('{prefix}') || {_equal('labels')}) && "
                f"variables.oldLabels.all(key, !key.startsWith('{prefix}') || key in variables.labels)",
                f"'pod ' + {_name_of('object')} + ' is bound: its labels {', '.join(GUARDED_LABELS)} and {prefix}* "
                "say what it is charged with, and only the scheduler and its services change them'",
            ),
            (
                f"{_list(GUARDED_ANNOTATIONS)}.all(key, {_equal('annotations')})",
                f"'pod ' + {_name_of('object')} + ' is bound: its annotations {', '.join(GUARDED_ANNOTATIONS)} "
                "say what it is charged with, and only the scheduler and its services change them'",
            ),
        ],
    )


def _grove_operator() -> dict[str, Any]:
    """It makes pods, accounts and their tokens in every namespace: all with its label, and it touches no others."""
    resources = ["pods", "secrets", "serviceaccounts", "services"]
    label = f"metadata.labels['{MANAGED_BY_LABEL}'] == '{MANAGED_BY}'"
    account = keys.TOKEN_ACCOUNT_ANNOTATION
    operations = ("CREATE", "UPDATE", "DELETE")
    of_core = _rules("", "v1", resources, *operations)
    others = [
        *_rules("rbac.authorization.k8s.io", "v1", ["roles", "rolebindings"], *operations),
        *_rules("autoscaling", "*", ["horizontalpodautoscalers"], *operations),
        *_rules("resource.k8s.io", "*", ["resourceclaims"], *operations),
    ]

    def marked(which: str) -> str:
        return (
            f"{which} == null || (has({which}.metadata.labels) && "
            f"'{MANAGED_BY_LABEL}' in {which}.metadata.labels && {which}.{label})"
        )

    return _policy(
        [*of_core, *others],
        [_by(GROVE_OPERATOR)],
        {
            "account": f"object != null && has(object.metadata.annotations) && '{account}' in "
            f"object.metadata.annotations ? object.metadata.annotations['{account}'] : ''",
        },
        [
            (
                f"({marked('object')}) && ({marked('oldObject')})",
                f"'the Grove operator may write only what is labelled {MANAGED_BY_LABEL}={MANAGED_BY}'",
            ),
            (
                "request.resource.resource != 'secrets' || object == null || "
                f"(object.type == '{keys.TOKEN_SECRET_TYPE}' && variables.account != '' && "
                f"object.metadata.name == variables.account + '{token_secret_name('')}' && "
                "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(each, "
                "each.kind == 'PodCliqueSet' && each.name == variables.account))",
                "'the Grove operator may make no Secrets but the tokens of init containers of PodCliqueSets, "
                "each for the account that is named like its set'",
            ),
            (
                "request.resource.resource != 'pods' || request.operation != 'CREATE' || "
                "(has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(each, "
                "each.kind == 'PodClique' && has(each.controller) && each.controller))",
                "'the Grove operator may make no pods but those of PodCliques'",
            ),
            (
                "request.resource.resource != 'rolebindings' || object == null || "
                "(object.roleRef.kind == 'Role' && (!has(object.subjects) || object.subjects.all(each, "
                "each.kind == 'ServiceAccount' && each.namespace == object.metadata.namespace)))",
                "'the Grove operator may bind no roles but those of a namespace to accounts of the same namespace'",
            ),
            (
                # A pod can be run as any account of its namespace, which is worth as much as the account's token.
                Text(
                    (
                        "!(request.resource.resource in ['pods', 'secrets']) || object == null || "
                        "!(object.metadata.namespace in ",
                        *_service_namespaces(),
                        ")",
                    )
                ),
                "'the Grove operator may make neither Secrets nor pods in namespace ' + object.metadata.namespace + "
                "', whose accounts are those of the cluster and of its scheduler'",
            ),
        ],
    )


def bind_request_rules() -> list[dict[str, Any]]:
    """What the policy about bind requests is asked about; the embedded cluster, which has no accounts for its services,
    judges the same by its own words."""
    return _rules("scheduling.run.ai", "*", ["bindrequests", "bindrequests/status"], "CREATE", "UPDATE", "DELETE")


def _bind_requests() -> dict[str, Any]:
    """A bind request is a decision: the binder carries out what the scheduler decided, and nobody else decides."""
    scheduler, binder = _account("scheduler"), _account("binder")
    removal = (
        "request.operation == 'DELETE' && (request.userInfo.username == 'system:kube-controller-manager' || "
        "'system:serviceaccounts:kube-system' in request.userInfo.groups)"
    )
    return _policy(
        bind_request_rules(),
        [("is-no-clean-up", f"!({removal})")],
        {},
        [
            (
                Text(
                    (
                        "request.userInfo.username == ",
                        *_user(scheduler),
                        " || (request.userInfo.username == ",
                        *_user(binder),
                        " && (request.operation == 'DELETE' || "
                        "(has(request.subResource) && request.subResource == 'status')))",
                    )
                ),
                "request.userInfo.username + ' may not write BindRequests: they are the decisions of the scheduler'",
            )
        ],
    )


# --- parts of them


def _policy(
    rules: Sequence[dict[str, Any]],
    conditions: Iterable[tuple[str, str | Expression]],
    variables: dict[str, str | Expression],
    validations: Iterable[tuple[str | Expression, str]],
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": list(rules)},
        "matchConditions": [{"name": name, "expression": expression} for name, expression in conditions],
    }
    if variables:
        spec["variables"] = [{"name": name, "expression": expression} for name, expression in variables.items()]
    spec["validations"] = [
        {"expression": expression, "messageExpression": message, "reason": "Forbidden"}
        for expression, message in validations
    ]
    return spec


def _rules(group: str, version: str, resources: list[str], *operations: str) -> list[dict[str, Any]]:
    return [
        {"apiGroups": [group], "apiVersions": [version], "resources": resources, "operations": list(operations)},
    ]


def _by(*accounts: Account) -> tuple[str, Expression]:
    """A condition: one of these accounts asks."""
    return "by-account", Text(("request.userInfo.username in ", *_users(accounts)))


def _users(accounts: Iterable[Account]) -> list[str | Expression]:
    """A list of user names, as CEL."""
    parts: list[str | Expression] = ["["]
    for position, account in enumerate(accounts):
        parts += [", " if position else "", *_user(account)]
    return [*parts, "]"]


def _user(account: Account) -> list[str | Expression]:
    if account.in_reservation_namespace:
        reservation = "global.resourceReservation"
        home, name = Value(f"{reservation}.namespace"), Value(f"{reservation}.serviceAccount")
        return ["'system:serviceaccount:", home, ":", name, "'"]
    return ["'system:serviceaccount:", ReleaseNamespace(), f":{account.name}'"]


def _service_namespaces() -> list[str | Expression]:
    """A list of the namespaces whose accounts may do more than those of users, as CEL."""
    return ["['kube-system', '", ReleaseNamespace(), "', '", Value("global.resourceReservation.namespace"), "']"]


def _who_patch_pods() -> list[Account]:
    rights = read_rights()
    return [
        account
        for account in ACCOUNTS
        if any((each.resource, each.verb) == _PATCHES_PODS for each in rights.get(account.name, ()))
    ]


def _webhook_names(account: Account) -> tuple[str, ...]:
    """The configurations that the account keeps, which its rights name."""
    own = read_rights().get(account.name, frozenset())
    return tuple(sorted({each.name for each in own if each.resource.endswith("webhookconfigurations") and each.name}))


def _account(service: str) -> Account:
    found = account_of(service)
    assert found is not None
    return found


def _list(texts: Iterable[str]) -> str:
    return "[" + ", ".join(f"'{each}'" for each in texts) + "]"


def _maps(name: str) -> dict[str, str | Expression]:
    """Variables: labels or annotations, of the object and of the old one, empty where there are none."""
    return {
        name: f"has(object.metadata.{name}) ? object.metadata.{name} : {{}}",
        f"old{name.title()}": f"has(oldObject.metadata.{name}) ? oldObject.metadata.{name} : {{}}",
    }


def _equal(name: str) -> str:
    """Whether `key` of these maps is as it was."""
    new, old = f"variables.{name}", f"variables.old{name.title()}"
    return f"(key in {new} ? key in {old} && {new}[key] == {old}[key] : !(key in {old}))"


def _only_differ(name: str, exception: str) -> str:
    new, old = f"variables.{name}", f"variables.old{name.title()}"
    spared = f"key == '{exception}'"
    return f"{new}.all(key, {spared} || {_equal(name)}) && {old}.all(key, {spared} || key in {new})"


def _same(path: str) -> str:
    """Whether a field is as it was, or as little there as it was."""
    return f"(has(object.{path}) ? has(oldObject.{path}) && object.{path} == oldObject.{path} : !has(oldObject.{path}))"


def _same_metadata(*names: str) -> str:
    return " && ".join(_same(f"metadata.{name}") for name in names)


def _name_of(which: str) -> str:
    return f"{which}.metadata.namespace + '/' + {which}.metadata.name"
