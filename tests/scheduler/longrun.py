"""Random clusters followed through many cycles, and what must hold in every one of them.

`follow(seed)` plays one story: queues with quotas, jobs that arrive and end, budgets, delays. After a while nothing new
happens, and things must come to rest. It raises `AssertionError` with the seed, or tells how many pods were evicted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import msgspec

from bosket.api.core import Node, Pod
from bosket.api.kai import BindRequest, PodGroup, Queue, SubGroup
from bosket.api.keys import GPU_FRACTION_ANNOTATION
from bosket.api.object import LabelSelector, ObjectKey, ObjectMeta
from bosket.api.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from bosket.api.scheduling_k8s import PriorityClass
from bosket.api.time import format_time
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.model.decisions import Decisions, Eviction
from bosket.scheduler.model.job import PodSet, SubGroupSet
from bosket.scheduler.model.queue import QueueRow
from bosket.scheduler.model.resource import NOTHING, QueueAmounts, plus
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, Task, TaskStatus
from bosket.scheduler.state.own.preemption_history import REMEMBERED_SECONDS
from bosket.testing.build import node, pod, pod_group, priority_class, queue
from bosket.testing.cluster import NOW
from bosket.testing.simulation import Delays, SimulatedCluster

#: Things happen for so many cycles; then they must come to rest, and stay so.
BUSY, SETTLING, QUIET = 30, 80, 30
PAUSES = (0.1, 0.5, 1.0, 2.0)
assert (BUSY + SETTLING + QUIET) * max(PAUSES) < REMEMBERED_SECONDS, "who took whose place is remembered to the end"
#: Cycles after which a job has started for which others were evicted.
PATIENCE = 60
PRIORITIES = {"low": 10, "middle": 50, "high": 90, "firm": 125}


@dataclass(frozen=True)
class Promise:
    """Others were evicted for a job."""

    since: int  #: the cycle
    pods: frozenset[ObjectKey]  #: that were to get a place
    beside: frozenset[ObjectKey]  #: that had one already


@dataclass
class Story:
    """What has happened so far."""

    actions: Counter[str] = field(default_factory=Counter)  #: evictions by action
    pods: int = 0  #: that jobs came with
    took: dict[ObjectKey, set[ObjectKey]] = field(default_factory=dict)  #: who evicted whom, of jobs that are there
    promised: dict[ObjectKey, Promise] = field(default_factory=dict)
    last_eviction: int = -1
    log: list[str] = field(default_factory=list)

    @property
    def evicted(self) -> int:
        return sum(self.actions.values())

    def note_places_taken(self, snapshot: Snapshot, decisions: Decisions) -> None:
        """Who evicts whom, till one of them ends, as far as the scheduler has heard of it.

        The right between two others may turn with a job's end: its queue holds less from then on.
        """
        there = snapshot.jobs.keys()
        self.took = {by: victims & there for by, victims in self.took.items() if by in there}
        for each in decisions.lasting_evictions:
            if each.preemptor is not None:
                self.took.setdefault(each.preemptor.key, set()).add(each.job.key)

    def circle(self) -> list[ObjectKey] | None:
        """Jobs that took the place of one another, the first of them again at the end."""
        done: set[ObjectKey] = set()

        def walk(key: ObjectKey, path: list[ObjectKey]) -> list[ObjectKey] | None:
            if key in path:
                return [*path[path.index(key) :], key]
            if key in done:
                return None
            for each in sorted(self.took.get(key, ())):
                found = walk(each, [*path, key])
                if found is not None:
                    return found
            done.add(key)
            return None

        for key in sorted(self.took):
            found = walk(key, [])
            if found is not None:
                return found
        return None


def follow(
    seed: int, *, varied: bool = False, restarts: bool = False, remembers: bool = True, beside: bool = False
) -> Story:
    """One cluster, from its beginning to its rest; a varied one has shared GPUs and minimum run times too.

    `restarts`: the scheduler is killed again and again, most often while evictions are under way; `remembers`: and its
    successor is given its memory. `beside`: searches for victims go on beside cycles that place, each for several
    cycles, and what they find is checked against what has changed by then.
    """
    random = Random(seed)
    cluster, coming = _cluster(random, Random(seed) if varied else None)
    story = Story()
    configuration = Configuration()
    unchanging = [each for kind in (Node, Queue, PriorityClass) for each in cluster.objects[kind].values()]
    repeated, killed, searching = Random(seed + 1), Random(seed + 2), Random(seed + 3) if beside else None
    for number in range(BUSY + SETTLING + QUIET):
        if number < BUSY:
            story.pods += _happens(random, cluster, coming)
        cluster.state.put(repeated.choice(unchanging))  # as a watch does that begins anew
        try:
            for decided in _cycles(cluster, configuration, searching):
                _judge_cycle(*decided)
                _note(story, number, cluster, *decided)
                _judge_cluster(cluster)
            _judge_story(story, number, cluster)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, cycle {number}: {error}\n" + "\n".join(story.log)) from error
        pause = random.choice(PAUSES)
        if restarts and killed.random() < (0.5 if story.last_eviction == number else 0.03):
            cluster.pass_time(part := killed.random() * pause)
            pause -= part
            cluster.restart(remembers=remembers)
            story.log.append(f"{number} t={cluster.now - NOW:.1f}: restart")
        cluster.pass_time(pause)
    assert story.last_eviction < BUSY + SETTLING, f"seed {seed}: evictions never end\n" + "\n".join(story.log)
    assert story.evicted <= 3 * story.pods, f"seed {seed}: {story.evicted} evictions of {story.pods} pods"
    return story


def _cycles(
    cluster: SimulatedCluster, configuration: Configuration, searching: Random | None
) -> Iterator[tuple[Snapshot, Decisions]]:
    """What is decided in one cycle; with `searching`, placing and what a search found that has ended by now."""
    if searching is None:
        decided = cluster.cycle(configuration)
        if decided is not None:
            yield decided
        return
    yield cluster.place(configuration)
    if not cluster.is_searching:
        cluster.begin_search(configuration)
    if searching.random() < 0.5:
        yield from cluster.end_search(configuration)


# ── the story ──


def _cluster(random: Random, variety: Random | None) -> tuple[SimulatedCluster, list[tuple[PodGroup, int]]]:
    cluster = SimulatedCluster(random, _delays(random))
    nodes, gpus = random.randint(1, 4), random.choice((2, 4, 4, 8))
    for number in range(nodes):
        cluster.write(node(f"n{number}", gpus=gpus))
    for name, value in PRIORITIES.items():
        cluster.write(priority_class(name, value))
    leaves = _queues(random, variety, cluster, nodes * gpus)
    names = [f"j{number:02}" for number in range(random.randint(3, 16))]
    coming = [_job(random, variety, cluster, name, leaves, gpus) for name in names]
    if random.random() < 0.3:
        least = random.randint(0, 2)
        selector = LabelSelector(matchLabels={"guarded": "yes"})
        cluster.write(
            PodDisruptionBudget(
                metadata=ObjectMeta(name="keep", namespace="default"),
                spec=PodDisruptionBudgetSpec(minAvailable=least, selector=selector),
                status=PodDisruptionBudgetStatus(desiredHealthy=least),
            )
        )
    cluster.pass_time(10.0)
    return cluster, coming


def _delays(random: Random) -> Delays:
    slow = random.choice((0.2, 1.0, 3.0, 6.0))
    return Delays(
        watch=slow * random.random(),
        write=slow * random.random(),
        start=slow * random.random(),
        end=3 * slow * random.random(),
        replace=2 * slow * random.random(),
        repeat_rate=0.1,
        bind_failure_rate=random.choice((0.0, 0.0, 0.05)),
    )


def _queues(random: Random, variety: Random | None, cluster: SimulatedCluster, gpus: int) -> list[str]:
    leaves = []
    for top in range(random.randint(1, 2)):
        cluster.write(
            queue(f"top{top}", quota=random.choice((-1, gpus // 2, gpus)), priority=random.choice((100, 200)))
        )
        for leaf in range(random.randint(1, 3)):
            name = f"q{top}{leaf}"
            quota = random.choice((0, 1, 2, gpus // 3, gpus // 2))
            limit = random.choice((-1, -1, -1, max(1, gpus // 2)))
            weight, priority = random.choice((1, 1, 3)), random.choice((100, 100, 200))
            made = queue(name, parent=f"top{top}", quota=quota, limit=limit, weight=weight, priority=priority)
            if variety is not None:
                least = [variety.choice((None, None, "5s", "30s")) for _ in range(2)]
                spec = msgspec.structs.replace(made.spec, preemptMinRuntime=least[0], reclaimMinRuntime=least[1])
                made = msgspec.structs.replace(made, spec=spec)
            cluster.write(made)
            leaves.append(name)
    return leaves


def _job(
    random: Random, variety: Random | None, cluster: SimulatedCluster, name: str, leaves: list[str], gpus: int
) -> tuple[PodGroup, int]:
    """A pod group and how many pods it has; its time is yet to come."""
    size = random.choice((1, 1, 2, 3, 4, 6))
    least = size if random.random() < 0.6 else random.randint(1, size)
    amount = random.choice((1, 1, 2, gpus // 2, gpus)) or 1
    template = pod("").of_group(name)
    if variety is not None and amount == 1 and variety.random() < 0.7:
        template = template.shares_gpu(variety.choice((0.25, 0.5, 0.5, 0.75)))
    else:
        template = template.gpu(amount)
    if random.random() < 0.3:
        template = template.label("guarded", "yes")
    group = pod_group(
        name,
        min_member=least,
        queue=random.choice(leaves),
        priority=random.choice(("low", "middle", "middle", "high", "firm")),
    )
    if random.random() < 0.8:
        cluster.templates[group.key] = template
    spec = msgspec.structs.replace(
        group.spec,
        stalenessGracePeriod=random.choice(("1s", "5s", "-1s")),
        preemptionDelay=random.choice((None, None, "2s")),
    )
    if size > 1 and random.random() < 0.3:
        count = random.randint(2, 3)
        parts = tuple(SubGroup(name=f"s{number}", minMember=random.choice((0, 1, 1, 2))) for number in range(count))
        enough = random.choice((None, 1, 1, count - 1, count))
        spec = msgspec.structs.replace(spec, minMember=None, subGroups=parts, minSubGroup=enough)
    meta = msgspec.structs.replace(group.metadata, annotations={"size": str(size)})
    cluster.templates.setdefault(group.key, template)
    return msgspec.structs.replace(group, spec=spec, metadata=meta), size


def _happens(random: Random, cluster: SimulatedCluster, coming: list[tuple[PodGroup, int]]) -> int:
    """Jobs arrive, end, and lose a member. How many pods there are more."""
    arrived = 0
    while coming and random.random() < 0.5:
        group, size = coming.pop(0)
        made = msgspec.structs.replace(group.metadata, creationTimestamp=format_time(cluster.now))
        cluster.write(msgspec.structs.replace(group, metadata=made))
        arrived += size
        for _ in range(size):
            cluster.add_pod(group.key)
    groups = list(cluster.objects.get(PodGroup, {}).values())
    if groups and random.random() < 0.06:
        group = random.choice(groups)
        cluster.delete(group)
        for each in cluster.pods(group.key):
            cluster.end(each, comes_back=False)
    running = [each for each in cluster.pods() if each.status.phase == "Running"]
    if running and random.random() < 0.05:
        cluster.end(random.choice(running), comes_back=random.random() < 0.5)
    return arrived


# ── what must hold ──


def _judge_cycle(snapshot: Snapshot, decisions: Decisions) -> None:
    """Gangs whole, queues within limits, firm work within quota; all by what is really carried out."""
    held: dict[ObjectKey, set[Task]] = {}
    gained: dict[QueueRow, QueueAmounts] = {}  # by the queue's row
    firm: dict[QueueRow, QueueAmounts] = {}  # the part of it that can't be preempted
    for bind in decisions.lasting_binds:
        held.setdefault(bind.job.key, set()).add(bind.task)
        for row in snapshot.queues.paths[snapshot.queues.rows[bind.job.queue]]:
            gained[row] = plus(gained.get(row, NOTHING), bind.task.pod_class.charge)
            if not bind.job.preemptible:
                firm[row] = plus(firm.get(row, NOTHING), bind.task.pod_class.charge)
    for key, bound in held.items():
        job = snapshot.jobs[key]
        active = bound | {task for task in job.tasks if task.status in ACTIVE_ALLOCATED}
        assert _runs(job.root, active), f"a part of gang {key} is bound"
    use = _use(snapshot)
    for row, amount in gained.items():
        entry = snapshot.queues.queues[row]
        total, total_firm = plus(use[row][0], amount), plus(use[row][1], firm.get(row, NOTHING))
        assert entry.limit[0] < 0 or total[0] <= entry.limit[0], f"queue {entry.name} is over its limit"
        if row in firm:
            assert entry.quota[0] < 0 or total_firm[0] <= entry.quota[0], f"firm work of {entry.name} is over quota"


def _runs(subgroup: PodSet | SubGroupSet, active: set[Task]) -> bool:
    if isinstance(subgroup, PodSet):
        return sum(task in active for task in subgroup.tasks) >= subgroup.min_available
    return sum(_runs(child, active) for child in subgroup.children) >= subgroup.min_children


def _use(snapshot: Snapshot) -> list[tuple[QueueAmounts, QueueAmounts]]:
    """(all, firm) that each queue holds, its children included; by the queue's row."""
    tree = snapshot.queues
    result = [(NOTHING, NOTHING) for _ in tree.queues]
    for name, use in snapshot.use.items():
        for row in tree.paths[tree.rows[name]]:
            result[row] = plus(result[row][0], use.allocated), plus(result[row][1], use.non_preemptible)
    return result


def _judge_cluster(cluster: SimulatedCluster) -> None:
    """No node, and no GPU, has more than it can hold, pods that are on their way out included."""
    used: Counter[str] = Counter()  # GPUs, by node
    parts: dict[tuple[str, str], float] = defaultdict(float)  # of one GPU, by node and GPU group
    for each in cluster.pods():
        name, portion = each.spec.nodeName, each.metadata.annotations.get(GPU_FRACTION_ANNOTATION)
        if not name:
            continue
        if portion is None:
            used[name] += int(each.spec.containers[0].resources.requests["nvidia.com/gpu"])
        else:
            (group,) = cluster.objects[BindRequest][each.key].spec.selectedGPUGroups
            parts[name, group] += float(portion)
    for (name, group), part in parts.items():
        assert part <= 1, f"GPU {group} of {name} is overfull"
        used[name] += 1
    for name, amount in used.items():
        found = cluster.objects[Node][ObjectKey("", name)]
        assert amount <= int(found.status.allocatable["nvidia.com/gpu"]), f"node {name} is overfull"


def _note(story: Story, number: int, cluster: SimulatedCluster, snapshot: Snapshot, decisions: Decisions) -> None:
    story.note_places_taken(snapshot, decisions)
    for each in decisions.lasting_evictions:
        story.actions[each.action] += 1
        story.last_eviction = number
        by = each.preemptor.key if each.preemptor else None
        story.log.append(f"{number} t={cluster.now - NOW:.1f}: {each.action} {each.task.key.name} for {by}")
    for bind in decisions.lasting_binds:
        story.log.append(f"{number} t={cluster.now - NOW:.1f}: bind {bind.task.key.name} to {bind.node}")
    outcome = decisions.outcome
    for by in {each.preemptor.key for each in decisions.lasting_evictions if each.preemptor}:
        placed = frozenset(
            task.key for task, end in outcome.items() if end.job.key == by and not isinstance(end, Eviction)
        )
        if placed:
            story.promised[by] = Promise(number, placed, frozenset(each.key for each in _placed(cluster, by)))
    for task, end in outcome.items():
        promise = story.promised.get(end.job.key)
        if promise is None or not isinstance(end, Eviction):
            continue
        # Another pod of the job may have been given the place: then that one was seen later.
        if task.key in promise.pods or task.status == TaskStatus.PENDING:
            del story.promised[end.job.key]  # one with a better right took it


def _placed(cluster: SimulatedCluster, group: ObjectKey) -> list[Pod]:
    return [each for each in cluster.pods(group) if each.spec.nodeName and not each.metadata.deletionTimestamp]


def _judge_story(story: Story, number: int, cluster: SimulatedCluster) -> None:
    for by, promise in list(story.promised.items()):
        placed = {each.key for each in _placed(cluster, by)}
        # Another pod of the job may have gone first: then that one was seen later.
        started = len(placed - promise.beside) >= len(promise.pods)
        there = {each.key for each in cluster.pods(by) if not each.metadata.deletionTimestamp}
        group = cluster.objects[PodGroup].get(by)
        changed = (
            group is None or not promise.pods | promise.beside <= there or len(there) < (group.spec.minMember or 0)
        )
        if started or changed or cluster.refused or by in cluster.failed_binds:
            del story.promised[by]
        else:
            assert number - promise.since <= PATIENCE, f"{by} hasn't started, though others were evicted for it"
    circle = story.circle()
    assert circle is None, f"took the place of one another: {circle}"
