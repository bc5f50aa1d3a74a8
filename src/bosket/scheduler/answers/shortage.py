"""What a job finds too little of: on nodes, in domains of a topology, and of its queue's fair share."""

from __future__ import annotations

from typing import Final

import msgspec

from bosket.api.object import ObjectKey
from bosket.scheduler.answers.answer import LOWER_IN_ORDER, OVER_FAIR_SHARE, Reason, Told
from bosket.scheduler.answers.demand import UNITS, WORDS, Demand, asked, demand_of, number, shown
from bosket.scheduler.answers.free_room import ClassRoom, FreeRoom
from bosket.scheduler.framework.class_view import POD_NUMBER, SHORT_PREFIXES
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.reason import (
    POD_SCHEDULING_ERRORS,
    DomainsShort,
    GangShort,
    JobReason,
    NodesRefused,
    PodUnfit,
    Scarcity,
    TopologyUnsatisfied,
)
from bosket.scheduler.model.resource import GPU, MEMORY, NOTHING, PODS, QUEUE_RESOURCES
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import PodClass
from bosket.scheduler.plugins.dynamicresources.fitness import CANNOT
from bosket.scheduler.plugins.predicates.unfit import UNMET

#: Amounts that differ by less are equal: sums of parts of GPUs.
ROUNDING: Final = 1e-6
#: So many kinds of objections of nodes are named.
_MOST_OBJECTIONS: Final = 3
_WORD_OF_SCARCITY: Final = {"GPUs": "gpu", "CPU cores": "cpu", "GiB of memory": "memory"}


class Shortage:
    """What one job lacks after a cycle."""

    def __init__(self, snapshot: Snapshot, decisions: Decisions, room: FreeRoom, job: Job) -> None:
        self._snapshot, self._decisions, self._room, self._job = snapshot, decisions, room, job
        self.demand: Demand = demand_of(job, decisions.outcome, snapshot.nodes.devices.largest)

    @property
    def lasts(self) -> bool:
        """Whether empty nodes wouldn't do either, as far as amounts tell."""
        classes = self.demand.classes
        return any(self._room.of(pod_class).slots_when_empty < count for pod_class, count in classes.items())

    @property
    def exceeds_nodes(self) -> bool:
        """Whether one of its pods asks for more than any node that may take it has."""
        classes = self.demand.classes
        return any(not self._room.of(pod_class).slots_when_empty for pod_class in classes)

    def told(self, reason: JobReason | None) -> Told:
        """What is too little, by KAI's reason; None where only searches for victims reported on the job."""
        match reason:
            case DomainsShort():
                return self._domains(reason)
            case TopologyUnsatisfied():
                return self._topology(reason)
            case GangShort(because=PodUnfit() as because):
                return self._unfit(because)
        if not self.demand.tasks:
            return Told(Reason(POD_SCHEDULING_ERRORS, "nodes"), ("no node takes its pods",), in_line=True)
        pod_class, objections, may_fit = self.demand.tasks[0].pod_class, dict[str, int](), True
        if isinstance(reason, GangShort) and isinstance(reason.because, NodesRefused):
            failed = (each.pod_class for each in self.demand.tasks if each.key == reason.first_failed)
            pod_class = next(failed, pod_class)
            objections = _objections(reason.because)
            may_fit = not objections or any(map(_is_shortage, reason.because.by_reason))
        room = self._room.of(pod_class)
        if not room.nodes:
            return Told(Reason(POD_SCHEDULING_ERRORS, "nodes", scope="cluster"), ("the cluster has no nodes",))
        if (too_large := self._larger_than_a_gpu(pod_class)) is not None:
            return too_large
        objections = objections or _sorted(room.objections)
        if objections and not (room.allowed and may_fit):
            return self._refused(room, pod_class, objections)
        return self._short(room, self.demand.classes[pod_class], objections)

    # Nodes

    def _refused(self, room: ClassRoom, pod_class: PodClass, objections: dict[str, int]) -> Told:
        """No node may take the pods, however much is free."""
        place = GPU if self._asked(pod_class, GPU) else PODS
        reason = msgspec.structs.replace(self._reason(place, have=0.0, scope="cluster"), objections=objections)
        needs = f"needs {self._need(place, room)}" if place == GPU or len(self.demand.tasks) > 1 else ""
        nodes = "the only node doesn't take it" if room.nodes == 1 else f"none of {room.nodes} nodes takes it"
        return Told(reason, (needs, f"{nodes}: {_listed(objections)}"))

    def _short(self, room: ClassRoom, count: int, objections: dict[str, int]) -> Told:
        place = room.scarcest(count)
        unit, need = UNITS.get(place, 1.0), self.demand.amount(place)
        needs = f"needs {self._need(place, room)}"
        out = _listed(objections, node=True)
        free, block = room.free(place), room.block(place)
        reason = self._reason(place, have=free / unit, limit=block / unit, scope="cluster")
        reason = msgspec.structs.replace(reason, objections=objections)
        if (largest := room.largest(place)) < self._largest_pod(place):
            reason = msgspec.structs.replace(reason, limit=largest / unit, scope="node")
            which = "the largest" if room.allowed == room.nodes else "the largest that may take it"
            return Told(reason, (needs, f"{which} has {self._amount(place, largest)}", out))
        if room.slots_when_empty < count:
            total = room.total(place)
            has = "1 node has" if room.allowed == 1 else f"{room.allowed} nodes have"
            have = f"{has} {self._amount(place, total)} in all"
            return Told(msgspec.structs.replace(reason, limit=total / unit), (needs, have, out))
        there = "none is free"
        if free > 0:
            there = f"{self._amount(place, free)} {'is' if number(free / unit) == '1' else 'are'} free"
        if place != PODS and free > block > 0:
            there += f", the largest block is {self._amount(place, block)}"
        standing = ""
        if place in QUEUE_RESOURCES:
            over, queue, held, share = self._standing(place)
            gib = " GiB" if place == MEMORY else ""
            standing = f"{queue} holds {number(held)}{gib} of its fair share of {number(share)}{gib}"
            if over and free + ROUNDING < need:
                reason = msgspec.structs.replace(
                    reason, code=OVER_FAIR_SHARE, tier="fairness", have=held, limit=share, scope=queue
                )
        if room.slots < count <= room.slots_before and (takers := self._takers()):
            reason = msgspec.structs.replace(
                reason, code=LOWER_IN_ORDER, tier="order", have=free / unit, limit=block / unit, scope=self._job.queue
            )
            more = f" and {len(takers) - 1} more" if len(takers) > 1 else ""
            there = f"what is free goes to {takers[0]}{more}, whose turn is earlier"
        return Told(reason, (needs, there, out, standing), in_line=True)

    def _larger_than_a_gpu(self, pod_class: PodClass) -> Told | None:
        """A pod that asks for more memory of a GPU than any GPU has; None for others."""
        share, largest = pod_class.share, self.demand.device_mib
        if share is None or largest is None or share.memory_mib <= largest:
            return None
        reason = Reason(
            POD_SCHEDULING_ERRORS, "nodes", "gpu-memory", float(share.memory_mib), limit=float(largest), scope="node"
        )
        return Told(reason, (f"needs {share.memory_mib} MiB of a GPU's memory", f"the largest GPU has {largest} MiB"))

    def _unfit(self, because: PodUnfit) -> Told:
        """No node would do: the request is larger than any, or an object that it refers to is missing."""
        names = self._snapshot.resource_names
        for pod_class in self.demand.classes:
            for place, _ in pod_class.holds:
                amount = self._asked(pod_class, place)
                largest = float(self._snapshot.nodes.allocatable[place].max(initial=0.0))
                if place == PODS or amount <= largest:
                    continue
                unit, free = UNITS.get(place, 1.0), self._room.of(pod_class).free(place)
                have = f"the largest has {self._amount(place, largest)}" if largest else "no node has any"
                return Told(
                    self._reason(place, have=free / unit, limit=largest / unit, scope="node"),
                    (f"needs {shown(place, amount, names)} on one node", have),
                )
        lines = because.text.splitlines() or ["no node takes its pods"]
        if len(lines) > 1 and lines[0].startswith(UNMET):  # then a line for each check that fails, after its name
            lines = [line.partition(": ")[2].rstrip(".") or line for line in lines[1:] if line]
        elif CANNOT in lines[0]:
            lines = [" ".join([lines[0].partition(CANNOT)[2], *lines[1:]])]
        return Told(Reason(POD_SCHEDULING_ERRORS, "spec"), tuple(lines))

    def _takers(self) -> list[ObjectKey]:
        """Other jobs that this cycle gave places to."""
        return sorted({each.job.key for each in self._decisions.outcome.values() if each.job is not self._job})

    def _reason(self, place: int, *, have: float, scope: str, limit: float | None = None) -> Reason:
        word = WORDS.get(place) or self._snapshot.resource_names[place]
        need = self.demand.amount(place) / UNITS.get(place, 1.0)
        return Reason(POD_SCHEDULING_ERRORS, "nodes", word, need or None, have, limit, scope)

    def _need(self, place: int, room: ClassRoom) -> str:
        """`32 GPUs on 4 nodes` where each pod needs a node of its own, `12 GPUs in 6 pods` where it doesn't."""
        text, count = shown(place, self.demand.amount(place), self._snapshot.resource_names), len(self.demand.tasks)
        if place == PODS:
            return f"room for {text}"
        if place == GPU and (memory := self._gpu_memory()):
            text = f"{memory} ({text})"
        if count == 1:
            return text if number(self.demand.amount(place) / UNITS.get(place, 1.0)) == "1" else f"{text} on one node"
        smallest = min(self._asked(pod_class, place) for pod_class in self.demand.classes)
        if room.allowed and room.counts(place) and smallest * 2 > room.largest(place):
            return f"{text} on {count} nodes"
        return f"{text} in {count} pods"

    def _gpu_memory(self) -> str:
        """What is asked for of GPUs' memory; empty where it isn't memory that is asked for."""
        shares = [pod_class.share for pod_class in self.demand.classes for _ in range(self.demand.classes[pod_class])]
        mib = sum(each.memory_mib * each.devices for each in shares if each is not None)
        return f"{mib} MiB of GPU memory" if mib else ""

    def _asked(self, pod_class: PodClass, place: int) -> float:
        return asked(pod_class, place, self.demand.device_mib)

    def _amount(self, place: int, amount: float) -> str:
        return shown(place, amount, self._snapshot.resource_names, unit=False)

    def _largest_pod(self, place: int) -> float:
        return max(self._asked(pod_class, place) for pod_class in self.demand.classes)

    # The queue

    def _standing(self, place: int) -> tuple[bool, str, float, float]:
        """The account of the first queue on the way up that would exceed its fair share with the job, else of its own.

        Whether there is such a queue, while others hold something that it could have otherwise; its name, what it holds
        and its fair share.
        """
        index, tree, unit = QUEUE_RESOURCES.index(place), self._snapshot.queues, UNITS.get(place, 1.0)
        held_by, shares = self._decisions.queue_allocated, self._decisions.fair_share
        everybody = sum(held_by.get(tree.queues[row].name, NOTHING)[index] for row in tree.roots)
        path = tree.paths[tree.rows[self._job.queue]]
        accounts = []
        for row in path:
            queue = tree.queues[row]
            held, share = held_by.get(queue.name, NOTHING)[index], shares.get(queue.name, NOTHING)[index]
            over = held + self.demand.charge[index] > share * (1 + ROUNDING) + ROUNDING and held + ROUNDING < everybody
            accounts.append((over, queue.display_name, held / unit, share / unit))
        return next((each for each in accounts if each[0]), accounts[0])

    # Topology

    def _domains(self, reason: DomainsShort) -> Told:
        """No domain of a level holds the pods together."""
        best, count, level = reason.best, len(reason.domains) + reason.more, _short_level(reason.level)
        pods = len(self.demand.tasks)
        which = f"the best of {count}, {best.domain}," if count > 1 else f"the only one, {best.domain},"
        if reason.scarcest is None:
            structured = Reason(reason.code, "topology", "pods", float(best.required), float(best.pods), scope=level)
            needs = f"needs room for {best.required} pods in one {level}"
            return Told(structured, (needs, f"{which} takes {best.pods}"), in_line=True)
        takes = ""
        if not best.resources and best.pods < best.required:
            takes = f" and takes {best.pods} of {best.required} pods"
        scarce = reason.scarcest
        needs = f"needs {scarce.asked} {scarce.resource}{f' in {pods} pods' if pods > 1 else ''} in one {level}"
        has = f"{which} has {scarce.free} of {scarce.total} free{takes}"
        return Told(_scarce(reason.code, scarce, level), (needs, has), in_line=True)

    def _topology(self, reason: TopologyUnsatisfied) -> Told:
        level, scarce = _short_level(reason.level), reason.scarcest
        if scarce is None:
            structured = Reason(reason.code, "topology", scope=level)
            return Told(
                structured, (f"no {level} of topology {reason.topology} takes its pods together",), in_line=True
            )
        needs = f"needs {scarce.asked} {scarce.resource} in one {level}"
        has = f"{scarce.free} of {scarce.total} are free in all"
        return Told(_scarce(reason.code, scarce, level), (needs, has), in_line=True)


def _scarce(code: str, scarce: Scarcity, level: str) -> Reason:
    need, free, total = float(scarce.asked), float(scarce.free), float(scarce.total)
    word = _WORD_OF_SCARCITY.get(scarce.resource, scarce.resource)
    return Reason(code, "topology", word, need, free, total, scope=level)


def _short_level(label: str) -> str:
    return label.rpartition("/")[2]


def _objections(refused: NodesRefused) -> dict[str, int]:
    """Nodes that may not take the pods, by what they say, the most frequent first."""
    return _sorted({text: count for text, count in refused.by_reason.items() if not _is_shortage(text)})


def _sorted(objections: dict[str, int]) -> dict[str, int]:
    return dict(sorted(objections.items(), key=lambda each: (-each[1], each[0])))


def _is_shortage(text: str) -> bool:
    return text == POD_NUMBER or text.startswith(SHORT_PREFIXES)


#: Kubernetes' words for what is so now, by what follows "node(s) ": of one node, of several.
_STANDING: Final = {
    "were unschedulable": ("is cordoned", "are cordoned"),
    "were not ready": ("is not ready", "are not ready"),
}


def _said(text: str, count: int) -> str:
    """An objection after the number of nodes."""
    said = text.removeprefix("node(s) ")
    one, several = _STANDING.get(said, (said, said))
    return one if count == 1 else several


def _listed(objections: dict[str, int], *, node: bool = False) -> str:
    """`4 had untolerated taint {infra}, 1 …`; with `node` `4 nodes had …`."""

    def who(count: int) -> str:
        return str(count) if not node else "1 node" if count == 1 else f"{count} nodes"

    texts = [f"{who(count)} {_said(text, count)}" for text, count in objections.items()]
    more = [f"and {len(texts) - _MOST_OBJECTIONS} other reasons"] if len(texts) > _MOST_OBJECTIONS else []
    return ", ".join([*texts[:_MOST_OBJECTIONS], *more])
