"""Bosket's admission in the embedded cluster: the webhooks' review handlers, called in process.

Who is asked about which operation of which resource is looked up in the table that webhook configurations are made of
(`bosket.services.admission.rule`), and for bind requests in the rules of the policy. The API server asks about writes
after its own admission and before its rules, and about deletions before it deletes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from bosket.api.admission import AdmissionRequest, RuleWithOperations
from bosket.api.authentication import UserInfo
from bosket.api.kai import PodGroup, Queue
from bosket.api.keys import SYSTEM_NAMESPACE
from bosket.api.meta import GroupVersionKind
from bosket.api.object import ObjectKey
from bosket.api.scheduling_k8s import PriorityClass
from bosket.apiserver.admission.attributes import AdmissionAttributes, Operation
from bosket.apiserver.admission.chain import AdmissionPlugin
from bosket.apiserver.objects.kind import Kind
from bosket.apiserver.objects.metadata import shown_name
from bosket.apiserver.rbac.authorizer import MASTERS
from bosket.apiserver.status import StatusError, forbidden
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.store.store import Store
from bosket.apiserver.writing.writer import Write
from bosket.install.account import account_of
from bosket.install.policy_part import bind_request_rules
from bosket.kube.patch import apply_json_patch
from bosket.runtime.webhook.review import AnyReviewHandler
from bosket.runtime.webhook.verdict import ADMITTED, Refusal, Verdict, sentence
from bosket.services.admission.access import Known
from bosket.services.admission.namespace_policy import may_matter
from bosket.services.admission.options import Options, PodRules
from bosket.services.admission.pod import may_be_refused, may_concern
from bosket.services.admission.review_handlers import MUTATE_PODS, VALIDATE_PODS, both, review_handlers
from bosket.services.admission.rule import Question, paths_by_question, resource_of, rules

#: Simulated GPUs can be shared from the start.
DEFAULT_OPTIONS: Final = Options(pods=PodRules(gpu_sharing_enabled=True))
#: Stands in the table for the policy about bind requests, which has no path.
_BIND_REQUESTS: Final = "bosket-bind-requests"


class Members:
    """Several who are asked one after the other."""

    def __init__(self, plugins: Sequence[AdmissionPlugin]) -> None:
        self._plugins = plugins

    async def admit(self, write: Write, new: Doc, old: Doc | None) -> None:
        for plugin in self._plugins:
            await plugin.admit(write, new, old)


class ObjectAdmission:
    """Refuses and completes what is written to the embedded server, and refuses deletions."""

    def __init__(self, options: Options, store: Store) -> None:
        self._store = store
        self._known = Known(self._queues, self._classes, self._namespace_labels, self._group)
        self._handlers: dict[str, AnyReviewHandler] = {}
        self._paths: dict[Question, tuple[str, ...]] = {}
        self._options = options
        self.follow(options)

    def follow(self, options: Options | None, unregistered: Collection[str] = ()) -> None:
        """Judge by other options from now on; None: admit everything as it is.

        `unregistered` are paths of webhooks that a Config has no configuration made for.
        """
        if options is None:
            self._paths = {}
            return
        table = {path: listed for path, listed in rules(options).items() if path not in unregistered}
        self._handlers = review_handlers(options, self._known, self._pod_groups)
        if options.access_control:
            table[_BIND_REQUESTS] = tuple(msgspec.convert(each, RuleWithOperations) for each in bind_request_rules())
            self._handlers[_BIND_REQUESTS] = _review_bind_request
        self._options, self._paths = options, paths_by_question(table)

    async def admit(self, write: Write, new: Doc, old: Doc | None) -> None:
        operation: Operation = "CREATE" if old is None else "UPDATE"
        paths = self._paths_of(operation, write.kind, write.subresource)
        if not paths:
            return
        request = AdmissionRequest(
            kind=GroupVersionKind(group=write.kind.group, version=write.version.name, kind=write.kind.kind),
            subResource=write.subresource,
            name=new["metadata"].get("name") or "",
            namespace=write.namespace,
            operation=operation,
            userInfo=msgspec.convert(write.user.info(), UserInfo),
            object=new,
            oldObject=old,
            dryRun=write.dry_run,
        )
        said = ADMITTED
        for path in paths:
            # Looked at anew for each path: what the one before added counts.
            if not self._has_something_to_say(path, request):
                continue
            verdict = await self._ask(path, request)
            if verdict.patch:
                _change(new, verdict.patch)
                write.version.strategy.default(new)  # what was added, too, is stored whole
            said = both(said, verdict)
            if said.refusals:
                break
        write.warnings += said.warnings
        if said.refusals:
            raise _refusal(write.kind, shown_name(new), said)

    def handles(self, operation: Operation, kind: Kind, subresource: str) -> bool:
        return bool(self._paths_of(operation, kind, subresource))

    async def validate_request(self, attributes: AdmissionAttributes) -> None:
        request = msgspec.convert(attributes.request(attributes.version), AdmissionRequest)
        said = ADMITTED
        for path in self._paths_of(attributes.operation, attributes.kind, attributes.subresource):
            said = both(said, await self._ask(path, request))
        attributes.warnings += said.warnings
        if said.refusals:
            raise _refusal(attributes.kind, attributes.shown_name, said)

    def _paths_of(self, operation: Operation, kind: Kind, subresource: str) -> tuple[str, ...]:
        return self._paths.get(Question(operation, kind.group, resource_of(kind.plural, subresource)), ())

    async def _ask(self, path: str, request: AdmissionRequest) -> Verdict:
        verdict = self._handlers[path](request)
        return verdict if isinstance(verdict, Verdict) else await verdict

    def _has_something_to_say(self, path: str, request: AdmissionRequest) -> bool:
        """What the match conditions of webhooks are for: most pods need not be decoded."""
        pod, pod_rules = request.object, self._options.pods
        if path == MUTATE_PODS:
            labels = self._namespace_labels(request.namespace)
            return may_matter(labels, self._options.queue_label_key) or may_concern(
                pod["spec"].get("schedulerName", ""), pod["metadata"], pod_rules
            )
        if path == VALIDATE_PODS:
            is_own = pod["spec"].get("schedulerName", "") == pod_rules.scheduler_name
            return is_own and (self._options.access_control or may_be_refused(pod["metadata"], pod_rules))
        return True

    def _namespace_labels(self, name: str) -> dict[str, str]:
        entry = self._store.resource("", "namespaces", namespaced=False).get("", name)
        return entry.labels if entry is not None else {}

    def _group(self, key: ObjectKey) -> PodGroup | None:
        entry = self._store.resource("scheduling.run.ai", "podgroups").get(key.namespace, key.name)
        return msgspec.convert(entry.decode(), PodGroup) if entry is not None else None

    def _classes(self) -> dict[str, PriorityClass]:
        resource_store = self._store.resource("scheduling.k8s.io", "priorityclasses", namespaced=False)
        classes = (msgspec.convert(entry.decode(), PriorityClass) for entry in resource_store.entries())
        return {each.metadata.name: each for each in classes}

    async def _pod_groups(self) -> list[PodGroup]:
        resource_store = self._store.resource("scheduling.run.ai", "podgroups")
        return [msgspec.convert(entry.decode(), PodGroup) for entry in resource_store.entries()]

    def _queues(self) -> dict[str, Queue]:
        resource_store = self._store.resource("scheduling.run.ai", "queues", namespaced=False)
        queues = (msgspec.convert(entry.decode(), Queue) for entry in resource_store.entries())
        return {queue.metadata.name: queue for queue in queues}


def _review_bind_request(request: AdmissionRequest) -> Verdict:
    """What the policy about bind requests says where it is installed; here services are administrators."""
    user, deletes = request.userInfo, request.operation == "DELETE"
    cleans_up = user.username == "system:kube-controller-manager" or "system:serviceaccounts:kube-system" in user.groups
    if (
        MASTERS in user.groups
        or user.username == _user_of("scheduler")
        or (user.username == _user_of("binder") and (deletes or request.subResource == "status"))
        or (deletes and cleans_up)
    ):
        return ADMITTED
    message = f"{user.username} may not write BindRequests: they are the decisions of the scheduler"
    return Verdict((Refusal("", message),))


def _user_of(service: str) -> str:
    account = account_of(service)
    assert account is not None
    return f"system:serviceaccount:{SYSTEM_NAMESPACE}:{account.name}"


def _change(doc: Doc, patch: Sequence[Any]) -> None:
    changed = apply_json_patch(doc, list(patch))
    doc.clear()
    doc.update(changed)


def _refusal(kind: Kind, name: str, verdict: Verdict) -> StatusError:
    causes = [
        {"reason": "FieldValueInvalid", "message": message, "field": field} for field, message in verdict.refusals
    ]
    return forbidden(kind.group, kind.plural, name, sentence(verdict.refusals), causes=causes)
