"""Pods of a PodClique: its pod spec with the operator's additions.

The backend adds its own afterwards (`prepare`): labels by which its scheduler finds the gang.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from bosket.api.core import (
    Container,
    DownwardAPIVolumeFile,
    DownwardAPIVolumeSource,
    ObjectFieldSelector,
    Pod,
    PodSchedulingGate,
    PodSpec,
    SecretVolumeSource,
    Volume,
    VolumeMount,
)
from bosket.api.grove import PodClique, PodCliqueSet
from bosket.api.grove.naming import (
    CLIQUE_LABEL,
    GANG_GATE,
    GANG_LABEL,
    INIT_CONTAINER,
    POD_INDEX_LABEL,
    SET_REPLICA_LABEL,
    managed_labels,
    pod_hostname,
    replica_name,
    token_secret_name,
)
from bosket.api.object import ObjectMeta
from bosket.api.ownership import controller_reference
from bosket.grove.render.claim import pod_claims, with_claims
from bosket.grove.render.environment import pod_variables, with_variables
from bosket.grove.render.template import min_available, set_replica_of, template_called

#: Adds to a pod what its scheduler wants, and says which scheduler that is.
PreparePod = Callable[[Pod], Pod]

_TOKEN_VOLUME: Final = "sa-token-secret-vol"  # noqa: S105 - no password
_POD_INFO_VOLUME: Final = "pod-info-vol"
_POD_INFO_PATH: Final = "/var/grove/pod-info"
_TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - no password


class InitProgram(NamedTuple):
    """The program of the init container that waits for pods of other cliques."""

    image: str
    #: Its entry point, if empty.
    command: tuple[str, ...] = ()


def render_pod(
    owner: PodCliqueSet, clique: PodClique, index: int, *, init_program: InitProgram, prepare: PreparePod
) -> Pod:
    """The pod of a PodClique with this index."""
    set_name, replica = owner.metadata.name, set_replica_of(clique)
    namespace, name = clique.metadata.namespace, clique.metadata.name
    labels = {
        **managed_labels(set_name),
        **clique.metadata.labels,
        CLIQUE_LABEL: name,
        SET_REPLICA_LABEL: str(replica),
        GANG_LABEL: clique.metadata.labels[GANG_LABEL],
        POD_INDEX_LABEL: str(index),
    }
    meta = ObjectMeta(
        generateName=f"{name}-",
        namespace=namespace,
        labels=labels,
        annotations=dict(clique.metadata.annotations),
        ownerReferences=(controller_reference(clique),),
    )
    spec = replace(clique.spec.podSpec, schedulingGates=_gates(clique.spec.podSpec))
    pod = prepare(Pod(metadata=meta, spec=spec))
    spec = with_variables(pod.spec, pod_variables(set_name, replica, name, namespace))
    spec = replace(spec, hostname=pod_hostname(name, index), subdomain=replica_name(set_name, replica))
    spec = with_claims(spec, pod_claims(owner, clique, index))
    if clique.spec.startsAfter:
        spec = _with_init_container(spec, set_name, init_program, _waits_for(owner, clique))
    return replace(pod, spec=spec)


def _gates(spec: PodSpec) -> tuple[PodSchedulingGate, ...]:
    """The operator's gate, and those of the template, which their authors remove.

    Grove drops the template's: pods would be scheduled that somebody wants to hold back.
    """
    return (PodSchedulingGate(name=GANG_GATE), *(each for each in spec.schedulingGates if each.name != GANG_GATE))


def _waits_for(owner: PodCliqueSet, clique: PodClique) -> Iterator[str]:
    for name in clique.spec.startsAfter:
        template = template_called(owner, clique, name)
        if template is not None:
            yield f"--podcliques={name}:{min_available(template)}"


def _with_init_container(spec: PodSpec, set_name: str, program: InitProgram, args: Iterable[str]) -> PodSpec:
    """The pod with a last init container that waits until those that come before are ready."""
    token = Volume(
        name=_TOKEN_VOLUME, secret=SecretVolumeSource(secretName=token_secret_name(set_name), defaultMode=420)
    )
    files = (
        DownwardAPIVolumeFile(path="namespace", fieldRef=ObjectFieldSelector(fieldPath="metadata.namespace")),
        DownwardAPIVolumeFile(
            path="podgangname", fieldRef=ObjectFieldSelector(fieldPath=f"metadata.labels['{GANG_LABEL}']")
        ),
    )
    info = Volume(name=_POD_INFO_VOLUME, downwardAPI=DownwardAPIVolumeSource(items=files))
    container = Container(
        name=INIT_CONTAINER,
        image=program.image,
        command=program.command,
        args=tuple(args),
        volumeMounts=(
            VolumeMount(name=_POD_INFO_VOLUME, readOnly=True, mountPath=_POD_INFO_PATH),
            VolumeMount(name=_TOKEN_VOLUME, readOnly=True, mountPath=_TOKEN_PATH),
        ),
    )
    return replace(spec, volumes=(*spec.volumes, token, info), initContainers=(*spec.initContainers, container))
