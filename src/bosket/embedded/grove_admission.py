"""Grove's admission in the embedded cluster: the rules of the webhooks, called in process.

Objects are completed when a webhook that mutates would be asked, and judged when one that validates would be. Who may
change what the operator made isn't asked here: in this process everybody is the same user.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from bosket.api.admission import AdmissionRequest
from bosket.api.grove import ClusterTopologyBinding
from bosket.api.grove.operator_configuration import (
    KAI_SCHEDULER,
    SUPPORTED_SCHEDULERS,
    OperatorConfiguration,
    SchedulerConfiguration,
    SchedulerProfile,
    TopologyAwareSchedulingConfiguration,
)
from bosket.apiserver.admission.webhook.review import denial
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.store.store import Store
from bosket.apiserver.writing.writer import Write
from bosket.grove.admission.defaults import completed
from bosket.grove.admission.registration import BINDING_VALIDATING, SET_VALIDATING
from bosket.grove.admission.review_handlers import check_set, review_binding
from bosket.runtime.webhook.verdict import Verdict

_GROUP: Final = "grove.io"
_SETS: Final = "podcliquesets"
_BINDINGS: Final = "clustertopologybindings"

#: All schedulers with a backend; pods that name none are Bosket's.
DEFAULT_CONFIGURATION: Final = OperatorConfiguration(
    topologyAwareScheduling=TopologyAwareSchedulingConfiguration(enabled=True),
    scheduler=SchedulerConfiguration(
        profiles=tuple(SchedulerProfile(name=name) for name in SUPPORTED_SCHEDULERS),
        defaultProfileName=KAI_SCHEDULER,
    ),
)


def configuration_for(default_scheduler: str) -> OperatorConfiguration:
    """The configuration of a cluster whose pods that name no scheduler are this one's."""
    scheduler = replace(DEFAULT_CONFIGURATION.scheduler, defaultProfileName=default_scheduler)
    return replace(DEFAULT_CONFIGURATION, scheduler=scheduler)


def grove_options(service: str, configuration: OperatorConfiguration = DEFAULT_CONFIGURATION) -> object | None:
    """Options of Grove's operator and of its backends that agree with the configuration; None for others."""
    if service == "grove-operator":
        from bosket.grove.operator import Options as OperatorOptions  # only a cluster that runs it pays for it

        return OperatorOptions(configuration)
    if service == "grove-backends":
        from bosket.grove.backends import Options as BackendOptions

        return BackendOptions(default_scheduler_name=configuration.scheduler.defaultProfileName)
    return None


class GroveDefaults:
    """Completes PodCliqueSets."""

    async def admit(self, write: Write, new: Doc, old: Doc | None) -> None:
        del old
        if write.subresource or (write.kind.group, write.kind.plural) != (_GROUP, _SETS):
            return
        whole = completed(new)
        if whole != new:
            new.clear()
            new.update(whole)
            write.version.strategy.default(new)


class GroveChecks:
    """Refuses PodCliqueSets and ClusterTopologyBindings, in the words of the webhooks."""

    def __init__(self, configuration: OperatorConfiguration, store: Store) -> None:
        self._configuration = configuration
        self._cluster = _StoredCluster(store)

    async def check(self, write: Write, new: Doc, old: Doc | None) -> None:
        if write.subresource or write.kind.group != _GROUP or write.kind.plural not in (_SETS, _BINDINGS):
            return
        request = AdmissionRequest(object=new, oldObject=old, operation="CREATE" if old is None else "UPDATE")
        if write.kind.plural == _SETS:
            hook, verdict = SET_VALIDATING, check_set(request, self._configuration, self._cluster)
        else:
            hook, verdict = BINDING_VALIDATING, review_binding(request, self._configuration)
        write.warnings += verdict.warnings
        if verdict.refusals:
            raise denial(hook, _status(verdict))


def _status(verdict: Verdict) -> Doc:
    causes = [
        {"reason": "FieldValueInvalid", "message": message, "field": field} for field, message in verdict.refusals
    ]
    message = verdict.words or "; ".join(each.message for each in verdict.refusals)
    return {"code": 403, "reason": "Forbidden", "message": message, "details": {"causes": causes}}


class _StoredCluster:
    """What the rules may ask, answered from the server's store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def binding(self, name: str) -> ClusterTopologyBinding | None:
        entry = self._store.resource(_GROUP, _BINDINGS, namespaced=False).get("", name)
        return None if entry is None else msgspec.convert(entry.decode(), ClusterTopologyBinding)

    def set_annotations(self, namespace: str, name: str) -> Mapping[str, str] | None:
        entry = self._store.resource(_GROUP, _SETS).get(namespace, name)
        return None if entry is None else entry.decode()["metadata"].get("annotations", {})

    def volcano_queue_state(self, name: str) -> str | None:
        entry = self._store.resource("scheduling.volcano.sh", "queues", namespaced=False).get("", name)
        return None if entry is None else str((entry.decode().get("status") or {}).get("state", ""))

    def has_hyper_nodes(self) -> bool:
        return any(True for _ in self._store.resource("topology.volcano.sh", "hypernodes", namespaced=False).entries())
