"""The pods of a StatefulSet: their names, identities and claims."""

from __future__ import annotations

import re
from typing import Final

from msgspec.structs import replace

from bosket.api.apps import StatefulSet
from bosket.api.core import PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume
from bosket.api.object import ObjectMeta, OwnerReference
from bosket.api.ownership import controller_reference
from bosket.embedded.controllers.pods import pod_of
from bosket.embedded.controllers.revision_history import REVISION_LABEL

_POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
_POD_INDEX: Final = "apps.kubernetes.io/pod-index"
_NAME: Final = re.compile(r"(?P<set>.+)-(?P<ordinal>0|[1-9]\d*)")


def ordinal_of(pod: Pod, owner: StatefulSet) -> int | None:
    """Which of the set's pods this is, by its name; None if by its name it is none of them."""
    match = _NAME.fullmatch(pod.metadata.name)
    return int(match["ordinal"]) if match is not None and match["set"] == owner.metadata.name else None


def new_pod(owner: StatefulSet, template: PodTemplateSpec, revision: str, ordinal: int) -> Pod:
    """The pod of an ordinal, with its stable name and its own claims in place of the templates'."""
    name = f"{owner.metadata.name}-{ordinal}"
    labels = {REVISION_LABEL: revision, _POD_NAME: name, _POD_INDEX: str(ordinal)}
    pod = pod_of(owner, template, name=name, labels=labels)
    claims = {claim.metadata.name: _claim_name(claim, name) for claim in owner.spec.volumeClaimTemplates}
    own = tuple(
        Volume(name=volume, persistentVolumeClaim=PersistentVolumeClaimVolumeSource(claimName=claim))
        for volume, claim in claims.items()
    )
    others = tuple(volume for volume in pod.spec.volumes if volume.name not in claims)
    spec = replace(pod.spec, hostname=name, subdomain=owner.spec.serviceName, volumes=(*own, *others))
    return replace(pod, spec=spec)


def claims_of(owner: StatefulSet, ordinal: int) -> list[PersistentVolumeClaim]:
    """The claims of an ordinal's pod. They outlive pod and set, unless the set says that they go with it."""
    policy = owner.spec.persistentVolumeClaimRetentionPolicy
    owners: tuple[OwnerReference, ...] = ()
    if policy is not None and policy.whenDeleted == "Delete":
        owners = (replace(controller_reference(owner), controller=None, blockOwnerDeletion=None),)
    selector = owner.spec.selector.matchLabels if owner.spec.selector is not None else {}
    return [
        PersistentVolumeClaim(
            metadata=ObjectMeta(
                name=_claim_name(template, f"{owner.metadata.name}-{ordinal}"),
                namespace=owner.metadata.namespace,
                labels={**template.metadata.labels, **selector},
                annotations=template.metadata.annotations,
                ownerReferences=owners,
            ),
            spec=template.spec,
        )
        for template in owner.spec.volumeClaimTemplates
    ]


def _claim_name(template: PersistentVolumeClaim, pod: str) -> str:
    return f"{template.metadata.name}-{pod}"
