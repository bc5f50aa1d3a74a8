"""`call_sites.txt`: every call site, and the rights that it was seen to need; and what follows from it for accounts.

rights_from(read_table())    what `src/bosket/install/rights.txt` must say
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from bosket.api.grove.naming import BINDINGS_VALIDATED, CHILDREN_PROTECTED, SETS_DEFAULTED, SETS_VALIDATED
from bosket.api.grove.operator_configuration import LeaderElectionConfiguration, WebhookServerConfiguration
from bosket.api.object import KubeObject
from bosket.api.resource import AnyResource
from bosket.api.table import resource_for, resource_of
from bosket.grove.backends.backend import SchedulerBackend
from bosket.grove.backends.catalogue import BUILT_IN
from bosket.grove.render import access as render_access
from bosket.install.account import ACCOUNTS, Account
from bosket.install.right import SCOPES, Right, Scope
from bosket.services.admission.options import Options as AdmissionOptions
from bosket.services.operator.kind import KINDS
from bosket.services.operator.reconciler import LEASE_NAME
from bosket.services.podgrouper.groupers import grove, knative
from bosket.services.podgrouper.karta import KARTA
from bosket.services.podgrouper.owner import GroupVersionKind
from bosket.services.podgrouper.table import GROUPERS, WRAPPERS
from tests.install.call_site import CallSite, modules_of, sites_of

TABLE: Final = Path(__file__).parent / "call_sites.txt"
LEASES: Final = "bosket.runtime.leader"
EVENTS: Final = "bosket.runtime.events"
#: Sites that ask for whatever kind an owner is of: what they may need follows from the pod grouper's own table.
OWNERS: Final = "bosket.services.podgrouper.owner_lookup"
#: Sites that write whatever kind the operator makes: what they may need follows from its table of kinds.
OWNED: Final = "bosket.services.operator.owned"
#: Sites that write, or watch, whatever kind a backend has: what they may need follows from the backends' own tables.
RENDERED: Final = "bosket.grove.backends.applier"
WATCHED: Final = "bosket.grove.backends.cluster_view:ClusterView.refresh of(kind)"
#: Where pods are freed of a backend's gate; not every backend has one.
_GATES: Final = "bosket.grove.backends.service:BackendController._release."
#: Sites that keep a certificate and webhook configurations, whosoever: each account may touch its own.
WEBHOOKS: Final = "bosket.runtime.webhook"
#: Call sites that need no right: everybody may see what there is.
DISCOVERY: Final = ("discover(", "raw('GET')")

#: Kinds between a pod and those that have a grouper.
_BETWEEN: Final = (
    "grove.io/v1alpha1/PodClique",
    "grove.io/v1alpha1/PodCliqueScalingGroup",
    "kubevirt.io/v1/VirtualMachine",
    "serving.knative.dev/v1/Configuration",
    "v1/ReplicationController",
)
#: Who has no lease: all replicas of the first two work, the others run on one node, or in one pod, each.
_WITHOUT_LEASE: Final = ("admission", "grove-admission", "numa-exporter", "reservation")
#: Shards are made while the cluster runs, and each has a lease of its own, which the operator looks after.
_ANY_LEASE: Final = ("scheduler",)
_SHARDS: Final = "bosket.services.operator.reconciler"
#: Leases that aren't named after their service.
_LEASES: Final = {"operator": LEASE_NAME, "grove-operator": LeaderElectionConfiguration().resourceName}
#: What the API server asks for beside the right to call, by account.
_IMPLIED: Final = {
    # A claim that blocks its pod's deletion: where owner references are watched over (OpenShift), this is asked for.
    # Since Kubernetes 1.36, who changes a claim's allocation or its users must be allowed to bind it.
    "binder": (Right("", "pods/finalizers", "update"), Right("resource.k8s.io", "resourceclaims/binding", "patch")),
    # As for claims: what it makes blocks the deletion of Config and shards.
    "kai-operator": (
        Right("kai.scheduler", "configs/finalizers", "update"),
        Right("kai.scheduler", "schedulingshards/finalizers", "update"),
    ),
    # Who makes a role must have what it allows. The rest is as above: children block the deletion of their owners.
    "grove-operator": (
        *(
            Right(group, resource, verb)
            for rule in render_access.RULES
            for group in rule.apiGroups or ()
            for resource in rule.resources or ()
            for verb in rule.verbs
        ),
        *(
            Right("grove.io", f"{plural}/finalizers", "update")
            for plural in ("clustertopologybindings", "podcliques", "podcliquescalinggroups", "podcliquesets")
        ),
    ),
}
#: Of those that make schedulers' objects for gangs; as above.
_GANG_FINALIZERS: Final = Right("scheduler.grove.io", "podgangs/finalizers", "update")

_ADMISSION: Final = AdmissionOptions()
#: Objects of which there is one of a kind, by the account that keeps them.
_OWN_NAMES: Final = {
    "admission": {
        "secrets": (_ADMISSION.secret_name,),
        "mutatingwebhookconfigurations": (_ADMISSION.mutating_configuration_name,),
        "validatingwebhookconfigurations": (
            _ADMISSION.validating_configuration_name,
            _ADMISSION.queue_configuration_name,
            _ADMISSION.pod_group_configuration_name,
        ),
    },
    "grove-admission": {
        "secrets": (WebhookServerConfiguration().secretName,),
        "mutatingwebhookconfigurations": (SETS_DEFAULTED,),
        "validatingwebhookconfigurations": (SETS_VALIDATED, BINDINGS_VALIDATED, CHILDREN_PROTECTED),
    },
}

Table = Mapping[str, frozenset[Right]]


def read_table(text: str | None = None) -> dict[str, frozenset[Right]]:
    """Rights by the key of the call site."""
    found: dict[str, set[Right]] = {}
    for line in (TABLE.read_text() if text is None else text).splitlines():
        if not line or line.startswith("#"):
            continue
        key, _, right = line.partition(" -> ")
        verb, group, resource, scope, *name = right.split()
        assert scope in SCOPES, line
        found.setdefault(key, set()).add(Right("" if group == "core" else group, resource, verb, scope, *name))
    return {key: frozenset(rights) for key, rights in found.items()}


def format_table(table: Table) -> str:
    """Lines that `read_table` reads."""
    lines = [
        f"{key} -> {right.verb} {right.group or 'core'} {right.resource} {right.scope} {right.name}".rstrip()
        for key, rights in sorted(table.items())
        for right in sorted(rights)
    ]
    return "# Made by: python -m tests.install\n" + "".join(f"{line}\n" for line in lines)


def own_sites(account: Account) -> tuple[CallSite, ...]:
    """The call sites that need rights, in the account's packages."""
    found = (site for package in (account.package, *account.also) for site in sites_of(package))
    needing = (each for each in found if not each.call.startswith(DISCOVERY))
    has_gates = any(each.gate for each in backends_of(account))
    return tuple(each for each in needing if has_gates or not each.key.startswith(_GATES))


def known_keys() -> set[str]:
    """The key of each site whose rights the table must have."""
    sites = [site for account in ACCOUNTS for site in own_sites(account)]
    sites += [*sites_of(LEASES), *sites_of(EVENTS)]
    return {each.key for each in sites if each.module not in (OWNERS, OWNED, RENDERED) and each.key != WATCHED}


def rights_from(table: Table) -> dict[str, frozenset[Right]]:
    """What each account needs."""
    return {account.name: frozenset(_without_covered(_needs(account, table))) for account in ACCOUNTS}


def _needs(account: Account, table: Table) -> set[Right]:
    seen = {site: _with_reading(site, table.get(site.key, ())) for site in own_sites(account)}
    for site in [each for each in seen if each.module == _SHARDS]:
        seen[site] = {right._replace(name="") if right.resource == "leases" else right for right in seen[site]}
    needed = {
        right
        for site, rights in seen.items()
        for right in (own_webhook_rights(account, rights) if site.module.startswith(WEBHOOKS) else rights)
    }
    modules, keys = ({site.module for site in own_sites(account)}, {site.key for site in own_sites(account)})
    needed |= owner_rights() if OWNERS in modules else set()
    needed |= owned_rights() if OWNED in modules else set()
    needed |= backend_rights(account, writes=RENDERED in modules) if WATCHED in keys else set()
    if account.service not in _WITHOUT_LEASE:
        lease = "" if account.service in _ANY_LEASE else _LEASES.get(account.service, account.service)
        rights = [right for site in sites_of(LEASES) for right in table.get(site.key, ())]
        needed |= {each._replace(name=lease if each.verb != "create" else "") for each in rights}
    if any(map(reports_events, (account.package, *account.also))):
        needed |= {right for site in sites_of(EVENTS) for right in table.get(site.key, ())}
    if account.in_reservation_namespace:
        needed = {right._replace(scope="reservation") for right in needed}
    return needed | set(_IMPLIED.get(account.name, ()))


def _with_reading(site: CallSite, rights: Iterable[Right]) -> set[Right]:
    """`Client.modify` may have to look at the object again to say why a patch was refused."""
    if not site.call.startswith("modify("):
        return set(rights)
    return {*rights, *(each._replace(verb="get", resource=each.resource.partition("/")[0]) for each in rights)}


def _without_covered(rights: Iterable[Right]) -> set[Right]:
    """What may be done anywhere need not be said of one namespace, nor what may be done to all of one name."""
    everything = set(rights)
    unnamed = {each for each in everything if not each.name or each._replace(name="") not in everything}
    return {each for each in unnamed if each.scope == "cluster" or each._replace(scope="cluster") not in everything}


def owner_rights() -> set[Right]:
    """To read owners of every kind that has a grouper, and what groupers read beside them."""
    kinds = {text for text in (*GROUPERS, *WRAPPERS, *_BETWEEN) if text != "v1/Pod"}
    kinds |= {f"{each.group}/{each.version}/{each.kind}" for each in (grove._POD_GANG, knative._REVISION)}
    rights = {_right(text, "get") for text in kinds}
    return rights | {_right(f"{KARTA.group}/{KARTA.version}/{KARTA.kind}", "list")}


def owned_rights() -> set[Right]:
    """To follow, make and delete objects of the operator's kinds where the services live.

    Webhook configurations are everybody's: only those of Bosket may be changed. Server-side apply creates, too.
    """
    rights: set[Right] = set()
    for kind in KINDS:
        scope: Scope = "own" if kind.namespaced else "cluster"
        rights |= {Right(kind.group, kind.plural, verb, scope) for verb in ("list", "watch")}
        names = ("",) if kind.namespaced else _OWN_NAMES["admission"][kind.plural]
        rights.add(Right(kind.group, kind.plural, "create", scope))
        rights |= {Right(kind.group, kind.plural, verb, scope, name) for verb in ("patch", "delete") for name in names}
    return rights


def backends_of(account: Account) -> tuple[type[SchedulerBackend], ...]:
    """The schedulers that the account tells about gangs, or about which it asks."""
    return tuple(each for each in BUILT_IN if account.backend in ("", each.name))


def backend_rights(account: Account, *, writes: bool) -> set[Right]:
    """To follow the kinds that its schedulers have for gangs; and to keep objects of them, where it does that."""
    made = [kind for backend in backends_of(account) for kind in backend.kinds]
    read = [kind for backend in backends_of(account) for kind in backend.reads]
    rights = {_right_of(kind, verb) for kind in (*made, *read) for verb in ("list", "watch")}
    if writes:
        rights |= {_right_of(kind, verb) for kind in made for verb in ("get", "create", "patch", "delete")}
        rights.add(_GANG_FINALIZERS)
    return rights


def _right_of(kind: type[KubeObject], verb: str) -> Right:
    resource = resource_of(kind)
    return Right(resource.group, resource.plural, verb)


def own_webhook_rights(account: Account, rights: Iterable[Right]) -> set[Right]:
    """The same for the account's own objects: code that several run is seen to ask for those of each."""
    return {
        Right(each.group, each.resource, each.verb, "own" if each.resource == "secrets" else "cluster", name)
        for each in rights
        for name in (("",) if each.verb == "create" else _OWN_NAMES[account.name][each.resource])
    }


def _right(text: str, verb: str) -> Right:
    api_version, _, kind = text.rpartition("/")
    gvk = GroupVersionKind.of(api_version, kind)
    resource: AnyResource | None = resource_for(api_version, kind)
    return Right(gvk.group, resource.plural if resource is not None else f"{kind.lower()}s", verb)


def reports_events(package: str) -> bool:
    """Whether its code tells events."""
    return any(_tells_events(module) for module in modules_of(package))


def _tells_events(module: Path) -> bool:
    calls = (node.func for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Call))
    return any(isinstance(each, ast.Attribute) and each.attr == "event" for each in calls)
