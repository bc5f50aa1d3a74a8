"""ClaimFitness: pods that fit no node because of missing, invalid or full claims and classes."""

from __future__ import annotations

from bosket.api.device_claim import is_gpu
from bosket.api.keys import QUEUE_LABEL
from bosket.api.resource_k8s import ResourceClaim
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.device import ClaimRef
from bosket.scheduler.model.task import Task
from bosket.scheduler.plugins.dynamicresources.demand import UnusableClaim
from bosket.scheduler.plugins.dynamicresources.keeper import DeviceKeeper

#: How many pods a claim can be reserved for.
MOST_USERS = 256

#: Stands between the pod and what is wrong with its claims.
CANNOT = " cannot be scheduled: "


class ClaimFitness:
    """A task check."""

    def __init__(self, session: Session, ledger: DeviceKeeper) -> None:
        self._session, self._ledger = session, ledger
        self._claims = session.snapshot.inventory.claims
        self._usable: set[int] = set()  # numbers of needs whose claims can be served somewhere
        self._for_gpus: dict[tuple[str, ...], bool] = {}  # by the device classes that a claim asks for

    def __call__(self, task: Task) -> str | None:
        needs, devices = task.pod_class.device_needs, task.devices
        if needs is None or devices is None:
            return None
        objection = devices.problem
        if not objection:
            for ref in devices.refs:
                if ref.name and (objection := self._objection(task, ref)):
                    break
        if not objection and needs.number not in self._usable:
            objection = self._unusable(task)
        return f"Pod {task.key}{CANNOT}{objection}" if objection else None

    def _objection(self, task: Task, ref: ClaimRef) -> str:
        state = self._ledger.get().known(ref.key)  # of a claim that nobody has there is none
        if state is not None and state.users >= MOST_USERS and not state.has(task.uid):
            return f"ResourceClaim {ref.key} has reached its maximum number of consumers ({MOST_USERS})"
        if ref.own:
            return ""
        claim = self._claims[ref.key]
        if not self._asks_for_gpus(claim):
            return ""
        assert task.group is not None
        queue = self._session.snapshot.jobs[task.group].queue
        label = claim.metadata.labels.get(QUEUE_LABEL, "")
        if not label:
            return f"ResourceClaim {ref.key} is a shared GPU claim but does not have a queue label ({QUEUE_LABEL})"
        if label != queue:
            return (
                f"ResourceClaim {ref.key} is a shared GPU claim with wrong queue label {QUEUE_LABEL} "
                f"(expected queue: {queue}, claim queue label: {label})"
            )
        return ""

    def _unusable(self, task: Task) -> str:
        needs, ledger = task.pod_class.device_needs, self._ledger.get()
        assert needs is not None
        assert task.devices is not None
        keys = {ref.name: ref.key for ref in task.devices.refs}
        known = True
        try:
            for index, each in enumerate(needs.claims):
                if each.key is None or ledger.allocation(each.key) is None:
                    ledger.demands.of(needs, index, keys.get(each.name))
                else:
                    known = False  # it may lose its allocation, and is looked at then
        except UnusableClaim as error:
            return str(error)
        if known:
            self._usable.add(needs.number)
        return ""

    def _asks_for_gpus(self, claim: ResourceClaim) -> bool:
        names = tuple(
            [each.exactly.deviceClassName for each in claim.spec.devices.requests if each.exactly is not None]
        )
        found = self._for_gpus.get(names)
        if found is None:
            found = self._for_gpus[names] = any(map(is_gpu, names))
        return found
