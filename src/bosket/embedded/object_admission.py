"""Bosket's admission in the embedded cluster: the same rules as behind the webhooks, asked in process.

The API server asks after its own admission and before its rules. Deletions aren't asked about here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from bosket.admission.access import Known, check_access
from bosket.admission.judges import both, check_pod, check_pod_group, check_queue, check_topology, complete_pod
from bosket.admission.namespace_policy import may_matter
from bosket.admission.options import Options, PodRules
from bosket.admission.pod import may_be_refused, may_concern
from bosket.api.admission import AdmissionRequest
from bosket.api.authentication import UserInfo
from bosket.api.kai import PodGroup, Queue
from bosket.api.meta import GroupVersionKind
from bosket.api.object import ObjectKey
from bosket.api.scheduling_k8s import PriorityClass
from bosket.apiserver.admission_chain import Member
from bosket.apiserver.entry import Doc
from bosket.apiserver.metadata import shown_name
from bosket.apiserver.rbac.authorizer import MASTERS
from bosket.apiserver.status import forbidden
from bosket.apiserver.store import Store
from bosket.apiserver.write import Write
from bosket.install.right import owners_of_pods
from bosket.kube.patch import apply_json_patch
from bosket.webhook.verdict import ADMITTED, Refusal, Verdict, sentence

#: Simulated GPUs can be shared from the start.
DEFAULT_OPTIONS: Final = Options(pods=PodRules(gpu_sharing_enabled=True))
#: Kinds that name queues and priority classes.
_USERS_OF_QUEUES: Final = frozenset({("", "pods"), ("scheduling.run.ai", "podgroups"), *owners_of_pods()})
_BIND_REQUESTS: Final = ("scheduling.run.ai", "bindrequests")


class Members:
    """Several who are asked one after the other."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members

    async def admit(self, write: Write, new: Doc, old: Doc | None) -> None:
        for member in self._members:
            await member.admit(write, new, old)


class ObjectAdmission:
    """Refuses and completes what is written to the embedded server."""

    def __init__(self, options: Options, store: Store) -> None:
        self._options = options
        self._is_on = True
        self._store = store
        self._known = Known(self._queues, self._classes, self._namespace_labels, self._group)

    def follow(self, options: Options | None) -> None:
        """Judge by other options from now on; None: admit everything as it is."""
        self._is_on = options is not None
        self._options = options or self._options

    async def admit(self, write: Write, new: Doc, old: Doc | None) -> None:
        if write.subresource or not self._is_on:
            return
        request = AdmissionRequest(object=new, oldObject=old, operation="CREATE" if old is None else "UPDATE")
        verdict = self._judge(write, request)
        if self._options.access_control and not verdict.refusals:
            verdict = both(verdict, self._judge_access(write, request))
        write.warnings += verdict.warnings
        if verdict.refusals:
            causes = [
                {"reason": "FieldValueInvalid", "message": message, "field": field}
                for field, message in verdict.refusals
            ]
            name = shown_name(new)
            raise forbidden(write.kind.group, write.kind.plural, name, sentence(verdict.refusals), causes=causes)

    def _judge(self, write: Write, request: AdmissionRequest) -> Verdict:
        match (write.kind.group, write.kind.plural):
            case ("", "pods"):
                return self._judge_pod(write, request)
            case ("scheduling.run.ai", "queues"):
                return check_queue(request, self._queues, self._options)
            case ("scheduling.run.ai", "podgroups"):
                return check_pod_group(request)
            case ("kai.scheduler", "topologies"):
                return check_topology(request)
        return ADMITTED

    def _judge_access(self, write: Write, request: AdmissionRequest) -> Verdict:
        """What a real cluster asks a webhook and, about bind requests, a policy."""
        judged = (write.kind.group, write.kind.plural)
        if judged == _BIND_REQUESTS and MASTERS not in write.user.groups:
            message = f"{write.user.name} may not write BindRequests: they are the decisions of the scheduler"
            return Verdict((Refusal("", message),))
        if judged not in _USERS_OF_QUEUES:
            return ADMITTED
        told = replace(
            request,
            kind=GroupVersionKind(group=write.kind.group, version=write.version.name, kind=write.kind.kind),
            namespace=write.namespace,
            userInfo=msgspec.convert(write.user.info(), UserInfo),
        )
        return check_access(told, self._options, self._known)

    def _judge_pod(self, write: Write, request: AdmissionRequest) -> Verdict:
        pod, rules = request.object, self._options.pods
        namespace = self._namespace_labels(pod["metadata"].get("namespace", "")) if request.oldObject is None else {}
        if not may_matter(namespace, self._options.queue_label_key) and not may_concern(
            pod["spec"].get("schedulerName", ""), pod["metadata"], rules
        ):
            return ADMITTED
        completion = complete_pod(request, self._options, namespace)
        if completion.patch:
            completed = apply_json_patch(pod, list(completion.patch))
            pod.clear()
            pod.update(completed)
            write.version.strategy.default(pod)  # what was added, too, is stored whole
        return check_pod(request, rules) if may_be_refused(pod["metadata"], rules) else ADMITTED

    def _namespace_labels(self, name: str) -> dict[str, str]:
        entry = self._store.shelf("", "namespaces", namespaced=False).get("", name)
        return entry.labels if entry is not None else {}

    def _group(self, key: ObjectKey) -> PodGroup | None:
        entry = self._store.shelf("scheduling.run.ai", "podgroups").get(key.namespace, key.name)
        return msgspec.convert(entry.decode(), PodGroup) if entry is not None else None

    def _classes(self) -> dict[str, PriorityClass]:
        shelf = self._store.shelf("scheduling.k8s.io", "priorityclasses", namespaced=False)
        classes = (msgspec.convert(entry.decode(), PriorityClass) for entry in shelf.entries())
        return {each.metadata.name: each for each in classes}

    def _queues(self) -> dict[str, Queue]:
        shelf = self._store.shelf("scheduling.run.ai", "queues", namespaced=False)
        queues = (msgspec.convert(entry.decode(), Queue) for entry in shelf.entries())
        return {queue.metadata.name: queue for queue in queues}
