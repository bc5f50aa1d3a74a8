"""Workloads put into a draft: their pods as admission completes them, in the groups that the pod grouper makes.

Everything that admission and the pod grouper decide is decided by their own code. What is assumed of their settings:
GPU sharing is enabled, and the rest is as the scheduler's configuration or the defaults have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from bosket.api import keys
from bosket.api.core import Namespace, Pod, PodStatus
from bosket.api.core.pod_status import PodResourceClaimStatus
from bosket.api.kai import PodGroup
from bosket.api.object import KubeObject, ObjectKey, ObjectMeta, OwnerReference
from bosket.api.ownership import controller_reference
from bosket.api.resource_k8s import ResourceClaim
from bosket.api.scheduling_k8s import PriorityClass
from bosket.api.time import format_time
from bosket.apiserver.admission.builtin import add_tolerations
from bosket.apiserver.kinds.pod import behaviours
from bosket.runtime.clock import SystemClock
from bosket.scheduler.answers.draft import Draft
from bosket.services.admission import namespace_policy
from bosket.services.admission.options import PodRules
from bosket.services.admission.pod import mutate, validate
from bosket.services.podgrouper.grouping import merge, pod_changes
from bosket.services.podgrouper.jq_evaluator import JqEvaluator
from bosket.services.podgrouper.kind_default import KindDefaults
from bosket.services.podgrouper.options import Options
from bosket.services.podgrouper.owner import GroupingError, GroupVersionKind, Owner
from bosket.services.podgrouper.plan import find_grouping
from bosket.services.podgrouper.program import ProgramRunner
from bosket.services.podgrouper.table import GrouperTable, load_table
from bosket.tools.expansion.expand import Expansion, Identity, expand
from bosket.tools.expansion.item import Document, ExpansionError
from bosket.tools.expansion.manifests import Manifest

_POD_BEHAVIOUR: Final = behaviours("default-scheduler")["", "Pod"]


@dataclass(slots=True)
class Submission:
    """What came into the draft."""

    jobs: list[ObjectKey] = field(default_factory=list)  #: pod groups with pods of the files, in order
    workloads: dict[ObjectKey, str] = field(default_factory=dict)  #: by pod group: "Job default/train"
    notes: list[str] = field(default_factory=list)  #: sentences about what is left out


async def submit(draft: Draft, manifests: Iterable[Manifest], namespace: str) -> Submission:
    """Puts all that files hold into the draft. Raises `ExpansionError`; the draft is then of no use."""
    expansion = expand(manifests, namespace, draft.cluster.now)
    runner = JqEvaluator(SystemClock())
    try:
        return await _Submitter(draft, expansion, runner).run()
    finally:
        runner.close()


class _Submitter:
    def __init__(self, draft: Draft, expansion: Expansion, runner: ProgramRunner) -> None:
        parameters = draft.cluster.recorded.parameters
        state = parameters.state_options()
        self._draft, self._expansion, self._runner = draft, expansion, runner
        self._rules = PodRules(scheduler_name=state.scheduler_name, gpu_sharing_enabled=True)
        self._options = Options(
            scheduler_name=state.scheduler_name,
            queue_label_key=parameters.queue_label_key or keys.QUEUE_LABEL,
            node_pool_label_key=state.node_pool_label,
        )
        self._in_shard = state.in_shard
        self._table: GrouperTable = load_table()
        self._reader = _Owners(expansion.owners)
        self._view = _View(draft)
        self._made = Submission(notes=list(expansion.notes))
        self._groups = 0

    async def run(self) -> Submission:
        for obj in self._expansion.objects:
            self._draft.put(self._over_existing(obj))
        for group in self._expansion.pod_groups:
            self._put_group(group)
        pods = [pod for document in self._expansion.pods if (pod := self._completed(document)) is not None]
        for pod in pods:
            if self._draft.get(Pod, pod.key) is not None:
                raise ExpansionError(
                    f"Pod {pod.key}: it is in the cluster already; --delete Pod/{pod.key} plans it anew"
                )
            self._draft.put(self._with_claims(pod))
        for pod in pods:
            await self._group(self._draft.get(Pod, pod.key) or pod)
        return self._made

    def _over_existing(self, obj: KubeObject) -> KubeObject:
        """The object as `kubectl apply` would leave it: identity and status are the existing one's."""
        known: Any = self._draft.get(type(obj), obj.key)
        if known is None:
            return obj
        kept = {"uid": known.metadata.uid, "creationTimestamp": known.metadata.creationTimestamp}
        changes: dict[str, Any] = {"metadata": msgspec.structs.replace(obj.metadata, **kept)}
        if hasattr(known, "status"):
            changes["status"] = known.status
        return msgspec.structs.replace(obj, **changes)

    def _completed(self, document: Document) -> Pod | None:
        """The pod as the API server and admission complete it; None where another scheduler places it."""
        metadata = document["metadata"]
        what = f"Pod {metadata.get('namespace', '')}/{metadata['name']}"
        try:
            # Types first: defaults are written into what has the right shape.
            msgspec.convert(document, Pod)
            _POD_BEHAVIOUR.default(document)
            errors = _POD_BEHAVIOUR.validate(document, None)
            if not errors:
                self._set_priority(what, document["spec"])
                add_tolerations(document["spec"])
            pod = msgspec.convert(document, Pod)
        except msgspec.ValidationError as error:
            raise ExpansionError(f"{what}: {error}") from error
        if errors:
            raise ExpansionError(f"{what}: {'; '.join(map(str, errors))}")
        pod = msgspec.structs.replace(pod, apiVersion="", kind="", status=PodStatus(phase="Pending"))
        labels = self._view.namespace_labels(pod.metadata.namespace)
        scheduler = self._rules.scheduler_name
        pod = namespace_policy.follow(pod, labels, scheduler, self._options.queue_label_key)
        if pod.spec.schedulerName != scheduler:
            self._made.notes.append(
                f"{what}: spec.schedulerName is {pod.spec.schedulerName}, so another scheduler places it; "
                f"{scheduler} plans its own pods"
            )
            return None
        if refusals := validate(pod, self._rules):
            raise ExpansionError(f"{what}: {'; '.join(f'{each.field}: {each.message}' for each in refusals)}")
        return mutate(pod, self._rules, lambda: "plan")

    def _set_priority(self, what: str, spec: Document) -> None:
        """As the API server's own admission does."""
        known = {each.metadata.name: each for each in self._draft.objects(PriorityClass)}
        name = spec.get("priorityClassName", "")
        if not name:
            defaults = [each for each in known.values() if each.globalDefault]
            if defaults:
                lowest = min(defaults, key=lambda each: each.value)
                spec["priorityClassName"], spec["priority"] = lowest.metadata.name, lowest.value
            return
        if name not in known and known:
            raise ExpansionError(
                f"{what}: spec.priorityClassName is {name}, and there is no such PriorityClass; there are: "
                f"{', '.join(sorted(known))}"
            )
        if name in known:
            spec["priority"] = known[name].value

    def _with_claims(self, pod: Pod) -> Pod:
        """The pod with the resource claims that are made for it from templates; these must be in the files."""
        statuses = []
        for number, asked in enumerate(pod.spec.resourceClaims):
            name = asked.resourceClaimTemplateName
            if not name:
                continue
            key = ObjectKey(pod.metadata.namespace, name)
            template = next((each for each in self._expansion.claim_templates if each.key == key), None)
            if template is None:
                raise ExpansionError(
                    f"Pod {pod.key}: spec.resourceClaims[{number}].resourceClaimTemplateName is {name}; put this "
                    "ResourceClaimTemplate into the files, too: it says which devices the pod asks for"
                )
            claim = ResourceClaim(
                metadata=ObjectMeta(
                    name=f"{pod.metadata.name}-{asked.name}",
                    namespace=pod.metadata.namespace,
                    uid=f"{pod.metadata.uid}-{number}",
                    labels=template.spec.metadata.labels,
                    annotations=template.spec.metadata.annotations,
                    ownerReferences=(controller_reference(pod),),
                ),
                spec=template.spec.spec,
            )
            self._draft.put(claim)
            statuses.append(PodResourceClaimStatus(name=asked.name, resourceClaimName=claim.metadata.name))
        if not statuses:
            return pod
        status = msgspec.structs.replace(pod.status, resourceClaimStatuses=tuple(statuses))
        return msgspec.structs.replace(pod, status=status)

    async def _group(self, pod: Pod) -> None:
        try:
            grouping = await find_grouping(
                pod, self._reader, self._view, self._options, self._table, runner=self._runner
            )
        except GroupingError as error:
            raise ExpansionError(str(error)) from error
        if grouping is not None:
            group = grouping.pod_group
            existing = self._draft.get(PodGroup, group.key)
            if existing is None:
                self._check_new(group, pod)
                self._put_group(group)
            else:
                self._draft.put(merge(existing, group, self._options))
            pod = _with(pod, pod_changes(pod, grouping))
            self._draft.put(pod)
        self._note_job(pod)

    def _check_new(self, group: PodGroup, pod: Pod) -> None:
        for owner in group.metadata.ownerReferences:
            for known in self._draft.cluster.objects(PodGroup):
                if known.metadata.namespace == group.metadata.namespace and _is_of(known, owner):
                    raise ExpansionError(
                        f"{owner.kind} {group.metadata.namespace}/{owner.name}: it is in the cluster already; "
                        f"--delete {owner.kind}/{owner.name} plans it anew"
                    )
        if not self._in_shard(group):
            raise ExpansionError(
                f"Pod {pod.key}: label {self._options.node_pool_label_key} says that it is for another shard; "
                "name that one with --shard"
            )

    def _put_group(self, group: PodGroup) -> None:
        self._groups += 1
        metadata = group.metadata
        self._draft.put(
            msgspec.structs.replace(
                group,
                metadata=msgspec.structs.replace(
                    metadata,
                    uid=metadata.uid or f"{self._groups:08x}-0000-4000-8000-000000000000",
                    creationTimestamp=format_time(self._draft.cluster.now),
                ),
            )
        )

    def _note_job(self, pod: Pod) -> None:
        name = pod.metadata.annotations.get(keys.POD_GROUP_ANNOTATION)
        key = ObjectKey(pod.metadata.namespace, name or "")
        if not name or self._draft.get(PodGroup, key) is None:
            what = f"PodGroup {name}, which isn't there" if name else "no PodGroup"
            raise ExpansionError(f"Pod {pod.key}: it belongs to {what}, so it would not be scheduled")
        if key not in self._made.workloads:
            self._made.jobs.append(key)
            self._made.workloads[key] = self._workload_of(pod)

    def _workload_of(self, pod: Pod) -> str:
        """The object at the top of the pod's owners."""
        shown = f"Pod {pod.key}"
        references: tuple[OwnerReference, ...] = pod.metadata.ownerReferences
        while references and (owner := self._reader.get(references[0], pod.metadata.namespace)) is not None:
            shown, references = str(owner), owner.metadata.ownerReferences
        return shown


class _Owners:
    """The objects of the files, as the pod grouper reads owners."""

    def __init__(self, owners: Mapping[Identity, Owner]) -> None:
        self._owners = owners

    def get(self, reference: OwnerReference, namespace: str) -> Owner | None:
        gvk = GroupVersionKind.of(reference.apiVersion, reference.kind)
        return self._owners.get((gvk.group, gvk.kind, namespace, reference.name))

    async def read(self, reference: OwnerReference, namespace: str) -> Owner:
        return await self.find(GroupVersionKind.of(reference.apiVersion, reference.kind), reference.name, namespace)

    async def find(self, gvk: GroupVersionKind, name: str, namespace: str) -> Owner:
        found = self._owners.get((gvk.group, gvk.kind, namespace, name))
        if found is None:
            raise GroupingError(f"{gvk.kind} {namespace}/{name} isn't in the files; pods are grouped by what it says")
        return found

    async def find_all(self, gvk: GroupVersionKind) -> tuple[Owner, ...]:
        return tuple(each for each in self._owners.values() if each.gvk == gvk)


class _View:
    """The draft, as the pod grouper sees a cluster."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def priority_class_exists(self, name: str) -> bool:
        return self._draft.get(PriorityClass, ObjectKey("", name)) is not None

    def pod_group(self, key: ObjectKey) -> PodGroup | None:
        return self._draft.get(PodGroup, key)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        found = self._draft.get(Namespace, ObjectKey("", name))
        return found.metadata.labels if found is not None else {}

    def kind_defaults(self) -> KindDefaults:
        return KindDefaults()

    def pods_labelled(self, namespace: str, label: str, value: str) -> Iterator[Pod]:
        for pod in self._draft.objects(Pod):
            if pod.metadata.namespace == namespace and pod.metadata.labels.get(label) == value:
                yield pod

    def pod_groups_named_after(self, namespace: str, uid: str) -> Iterator[PodGroup]:
        for group in self._draft.objects(PodGroup):
            if group.metadata.namespace == namespace and uid in group.metadata.name:
                yield group


def _is_of(group: KubeObject, owner: OwnerReference) -> bool:
    return any((each.kind, each.name) == (owner.kind, owner.name) for each in group.metadata.ownerReferences)


def _with(pod: Pod, changes: Mapping[str, Mapping[str, str]]) -> Pod:
    metadata = pod.metadata
    return msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(
            metadata,
            labels={**metadata.labels, **changes.get("labels", {})},
            annotations={**metadata.annotations, **changes.get("annotations", {})},
        ),
    )
