"""Eviction: a deletion that asks the disruption budgets first."""

from __future__ import annotations

from typing import Any

import msgspec

from bosket.api.meta import DeleteOptions, Preconditions
from bosket.api.policy import Eviction
from bosket.apiserver.admission.chain import AdmissionChain
from bosket.apiserver.housekeeping.disruption_budget import NotCountable, budgets_of, count_budget, is_ready
from bosket.apiserver.objects.kind import Kind
from bosket.apiserver.objects.status_condition import set_condition
from bosket.apiserver.request.body import decode_order
from bosket.apiserver.request.resource_request import ResourceRequest
from bosket.apiserver.request.response import created
from bosket.apiserver.status import StatusError, bad_request, internal_error, not_found, too_many_requests
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.store.store import Store
from bosket.apiserver.writing.deletion import Deleter, check_preconditions
from bosket.apiserver.writing.writer import Writer, write_of
from bosket.kube.transport import Response

_REFUSAL = "Cannot evict pod as it would violate the pod's disruption budget."
#: What those who are asked about an eviction see.
_FORM = ("policy", "v1", "Eviction")


class Evictor:
    """Answers POST pods/NAME/eviction."""

    def __init__(self, store: Store, writer: Writer, deleter: Deleter, admission: AdmissionChain) -> None:
        self._budgets = store.resource("policy", "poddisruptionbudgets")
        self._writer = writer
        self._deleter = deleter
        self._admission = admission

    async def evict(self, request: ResourceRequest) -> Response:
        eviction = await self._decode(request)
        options = eviction.deleteOptions or DeleteOptions()
        entry = request.kind.objects.get(request.namespace, request.name)
        if entry is None:
            raise not_found("", "pods", request.name)
        pod = entry.decode()
        check_preconditions(request.kind, entry, options)
        dry_run = request.dry_run or "All" in options.dryRun
        await self._admission.check_creation(
            request, _FORM, lambda: _shown(request, eviction), name=request.name, dry_run=dry_run
        )
        if _needs_permission(pod):
            self._ask_budget(request.kind, pod, dry_run=dry_run)
        if not dry_run:
            await self._mark(request)
        guarded = options.preconditions or Preconditions(uid=entry.uid)
        changes: dict[str, Any] = {"preconditions": msgspec.structs.replace(guarded, resourceVersion=None)}
        if dry_run:
            changes["dryRun"] = ("All",)
        options = msgspec.structs.replace(options, **changes)
        self._deleter.delete(request.kind, request.version, request.namespace, request.name, options)
        return created()

    async def _decode(self, request: ResourceRequest) -> Eviction:
        eviction = await decode_order(request, self._writer.executor, Eviction, "an Eviction", optional=True)
        if eviction.metadata.name not in ("", request.name):
            raise bad_request(
                f"name in URL ({request.name}) does not match name in Eviction object ({eviction.metadata.name})"
            )
        return eviction

    async def _mark(self, request: ResourceRequest) -> None:
        """Say on the pod why it goes, before it does."""

        def change(pod: Doc) -> Doc:
            condition = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            }
            set_condition(pod.setdefault("status", {}).setdefault("conditions", []), condition, self._writer.now())
            return pod

        await self._writer.update(write_of(request, trusted=True), request.name, change)

    def _ask_budget(self, pods: Kind, pod: Doc, *, dry_run: bool) -> None:
        """Raise unless the pod's budget, if it has one, has room; take the room."""
        budgets = budgets_of(self._budgets, pod["metadata"]["namespace"], pod["metadata"].get("labels", {}))
        if not budgets:
            return
        if len(budgets) > 1:
            raise internal_error(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            )
        budget = budgets[0].decode()
        name = budget["metadata"]["name"]
        try:
            status = {**budget.get("status", {}), **count_budget(budget, pods.objects)}
        except NotCountable as error:
            raise _refusal(
                f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {error}"
            ) from None
        policy = budget["spec"].get("unhealthyPodEvictionPolicy", "IfHealthyBudget")
        if not is_ready(pod):
            if policy == "AlwaysAllow":
                return
            if status["currentHealthy"] >= status["desiredHealthy"] > 0:
                return
        if status["disruptionsAllowed"] <= 0:
            raise _refusal(
                f"The disruption budget {name} needs {status['desiredHealthy']} healthy pods and has "
                f"{status['currentHealthy']} currently"
            )
        status["disruptionsAllowed"] -= 1
        status.setdefault("disruptedPods", {})[pod["metadata"]["name"]] = self._writer.now()
        budget["status"] = status
        if not dry_run:
            self._budgets.replace(budgets[0], budget)


def _shown(request: ResourceRequest, eviction: Eviction) -> Doc:
    doc: Doc = msgspec.to_builtins(eviction)
    metadata = {**doc.get("metadata", {}), "name": request.name, "namespace": request.namespace}
    return {**doc, "apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}


def _needs_permission(pod: Doc) -> bool:
    """Pods that don't serve anyone, or no longer, can go without asking."""
    phase = pod.get("status", {}).get("phase")
    return phase not in ("Succeeded", "Failed", "Pending") and "deletionTimestamp" not in pod["metadata"]


def _refusal(why: str) -> StatusError:
    # No word on when to come back: nobody knows when the budget will have room.
    return too_many_requests(_REFUSAL, causes=[{"reason": "DisruptionBudget", "message": why}])
