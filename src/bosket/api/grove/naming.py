"""How Grove names what it makes, and the labels by which it finds it again.

The operator, its webhooks, the backends and the init container agree on these. Names are built from their parts and
never taken apart at a dash: both sets and cliques may have dashes in their names.
"""

from __future__ import annotations

from typing import Final

from bosket.api import keys

MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
PART_OF_LABEL: Final = "app.kubernetes.io/part-of"
NAME_LABEL: Final = "app.kubernetes.io/name"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
MANAGED_BY: Final = "grove-operator"

#: Keys with this prefix are the operator's own.
PREFIX: Final = "grove.io/"
CLIQUE_LABEL: Final = keys.GROVE_POD_CLIQUE_LABEL
GANG_LABEL: Final = keys.GROVE_POD_GANG_LABEL
BASE_GANG_LABEL: Final = "grove.io/base-podgang"
SET_REPLICA_LABEL: Final = "grove.io/podcliqueset-replica-index"
GROUP_LABEL: Final = "grove.io/podcliquescalinggroup"
GROUP_REPLICA_LABEL: Final = "grove.io/podcliquescalinggroup-replica-index"
POD_INDEX_LABEL: Final = "grove.io/podclique-pod-index"
TEMPLATE_HASH_LABEL: Final = "grove.io/pod-template-hash"
SCHEDULER_NAME_LABEL: Final = keys.GROVE_SCHEDULER_LABEL
SCHEDULER_BACKEND_LABEL: Final = keys.GROVE_BACKEND_LABEL

TOPOLOGY_NAME_ANNOTATION: Final = keys.GROVE_TOPOLOGY_ANNOTATION
RECONCILE_TRIGGER_ANNOTATION: Final = "grove.io/reconcile-trigger"
MNNVL_GROUP_ANNOTATION: Final = "grove.io/mnnvl-group"
UNPROTECTED_ANNOTATION: Final = "grove.io/disable-managed-resource-protection"

SET_FINALIZER: Final = "grove.io/podcliqueset.grove.io"
CLIQUE_FINALIZER: Final = "grove.io/podclique.grove.io"
GROUP_FINALIZER: Final = "grove.io/podcliquescalinggroup.grove.io"

#: Webhook configurations, as Grove's chart calls them, and the service behind them.
SETS_DEFAULTED: Final = "podcliqueset-defaulting-webhook"
SETS_VALIDATED: Final = "podcliqueset-validating-webhook"
BINDINGS_VALIDATED: Final = "clustertopology-validating-webhook"
CHILDREN_PROTECTED: Final = "authorizer-webhook"
WEBHOOK_SERVICE: Final = "grove-operator"

#: The last init container of pods that start after others, and the program in it.
INIT_CONTAINER: Final = "grove-initc"
#: Keeps a pod from being scheduled until its gang knows of it.
GANG_GATE: Final = "grove.io/podgang-pending-creation"


def managed_labels(set_name: str) -> dict[str, str]:
    """What every object that the operator makes for a set carries."""
    return {MANAGED_BY_LABEL: MANAGED_BY, PART_OF_LABEL: set_name}


def replica_name(owner: str, replica: int) -> str:
    """Of a set's replica: its headless service and its base gang. Of a scaling group's: its topology group."""
    return f"{owner}-{replica}"


def clique_name(owner: str, replica: int, clique: str) -> str:
    """The PodClique of one role; `owner` is the set, or the scaling group that the role is part of."""
    return f"{owner}-{replica}-{clique}"


def group_name(set_name: str, replica: int, group: str) -> str:
    """The PodCliqueScalingGroup of one replica of a set."""
    return f"{set_name}-{replica}-{group}"


def gang_name(set_name: str, set_replica: int, group: str, group_replica: int, min_available: int) -> str:
    """The gang of a replica of a scaling group: the base gang, or one of its own above the minimum.

    `group` is the full name of the scaling group.
    """
    if group_replica < min_available:
        return replica_name(set_name, set_replica)
    return f"{group}-{group_replica - min_available}"


def pod_hostname(clique: str, index: int) -> str:
    """What a pod calls itself; the same for whoever takes its place."""
    return f"{clique}-{index}"


def service_address(set_name: str, replica: int, namespace: str) -> str:
    """Where the pods of a replica find each other."""
    return f"{replica_name(set_name, replica)}.{namespace}.svc.cluster.local"


def role_name(set_name: str) -> str:
    """The Role by which init containers watch pods, and its binding."""
    return f"grove.io:pcs:{set_name}"


def token_secret_name(set_name: str) -> str:
    """The Secret with the token of init containers."""
    return f"{set_name}-ic-sat"


def shared_claim_name(owner: str, template: str) -> str:
    """The claim that all replicas of `owner` share."""
    return f"{owner}-all-{template}"


def replica_claim_name(owner: str, replica: int, template: str) -> str:
    """The claim that one replica of `owner` has for itself."""
    return f"{owner}-{replica}-{template}"
