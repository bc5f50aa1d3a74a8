"""What happens to queues, jobs and pods: nothing, except where one of Bosket's rules differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bosket.api import keys
from bosket.api.core import Pod
from bosket.api.kai import BindRequest, PodGroup, Queue, QueueResources, Topology
from bosket.api.policy import PodDisruptionBudget
from bosket.api.time import InvalidDuration, parse_duration
from bosket.kube.selector import InvalidSelector, label_selector
from bosket.scheduler.model.gpu_share import UnusableShare, share_of
from bosket.tools.doctor.checks import queue_tree
from bosket.tools.doctor.finding import Finding, Severity, counted, named, some
from bosket.tools.doctor.installation import Installation
from bosket.tools.migrate.item import Item, Outlook

KUEUE_TOPOLOGY = ("kueue.x-k8s.io", "Topology")


def of_work(installation: Installation) -> Iterator[Item]:
    """Queues, pod groups, pods and what goes with them."""
    yield from _of_queues(installation)
    yield from _of_topologies(installation)
    yield from _of_groups(installation)
    yield from _of_pods(installation)
    yield from _of_bind_requests(installation)
    yield from _of_budgets(installation)


def _of_queues(installation: Installation) -> Iterator[Item]:
    wrong: dict[str, Finding] = {}
    for each in (*queue_tree.check_amounts(installation), *queue_tree.check_tree(installation)):
        if each.severity is Severity.ERROR:
            wrong.setdefault(each.object, each)
    kept = 0
    for queue in installation.bundle.of(Queue):
        edit = f"kubectl edit queue {queue.metadata.name}"
        odd = [
            (field, value)
            for field in ("preemptMinRuntime", "reclaimMinRuntime")
            if (value := getattr(queue.spec, field)) is not None and not _is_duration(value)
        ]
        finding = wrong.get(named(queue))
        if odd:
            field, value = odd[0]
            sentence = f'"{value}" is no duration such as 10m: the definition that Bosket installs refuses it'
            yield Item(Outlook.ACTION, named(queue), f"spec.{field}", sentence, "correct it", edit)
        elif finding is not None and finding.code == "queue-amount-negative":
            sentence = f"{finding.problem}; the definition that Bosket installs refuses it"
            yield Item(Outlook.ACTION, named(queue), finding.field, sentence, finding.remedy, finding.command)
        elif finding is not None:
            yield Item(Outlook.CHANGES, named(queue), finding.field, f"is ignored with its jobs: {finding.problem}")
        elif unlimited := _without_limit(queue):
            sentence = (
                "no limit is given, and there is none; KAI's scheduler takes it for 0, and runs nothing that asks"
            )
            yield Item(Outlook.CHANGES, named(queue), f"spec.resources.{unlimited[0]}.limit", sentence)
        else:
            kept += 1
    if kept:
        yield Item(
            Outlook.KEEP,
            counted(kept, "Queue"),
            "",
            "nothing changes: quotas, limits, weights, priorities and labels mean the same",
        )


def _without_limit(queue: Queue) -> list[str]:
    """Resources of which the queue says no limit."""
    resources = queue.spec.resources or QueueResources()
    return [name for name in ("gpu", "cpu", "memory") if getattr(resources, name).limit is None]


def _of_topologies(installation: Installation) -> Iterator[Item]:
    there = {topology.metadata.name for topology in installation.bundle.of(Topology)}
    if there:
        yield Item(Outlook.KEEP, counted(len(there), "Topology", "Topologies"), "", "nothing changes")
    for document in installation.bundle.foreign.get(KUEUE_TOPOLOGY, ()):
        name = str((document.get("metadata") or {}).get("name", ""))
        if name in there:
            yield Item(Outlook.KEEP, f"Kueue Topology {name}", "", "is Kueue's; KAI's of that name was copied from it")
            continue
        yield Item(
            Outlook.ACTION,
            f"Kueue Topology {name}",
            "",
            "KAI's chart copies Kueue's topologies when it is installed or upgraded; Bosket's doesn't, and nobody has "
            "copied this one",
            "copy it, if workloads of KAI name it",
            f'kubectl get topologies.kueue.x-k8s.io {name} -o json | jq \'{{apiVersion: "kai.scheduler/v1alpha1", '
            f"kind, metadata: {{name: .metadata.name}}, spec: {{levels: .spec.levels}}}}' | kubectl apply -f -",
        )


def _of_groups(installation: Installation) -> Iterator[Item]:
    groups = installation.bundle.of(PodGroup)
    by_name: dict[str, list[PodGroup]] = {}
    for group in groups:
        by_name.setdefault(group.metadata.name, []).append(group)
        names = [each.name for each in group.spec.subGroups]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            yield Item(
                Outlook.ACTION,
                named(group),
                "spec.subGroups",
                f"sub-groups have the same name ({some(twice)}), which the definition that Bosket installs refuses",
                "give them names of their own",
                f"kubectl edit podgroups.scheduling.run.ai -n {group.metadata.namespace} {group.metadata.name}",
            )
        if group.spec.subGroups and group.spec.minSubGroup is not None:
            yield Item(
                Outlook.CHANGES,
                named(group),
                "spec.minSubGroup",
                "isn't stale while it has as many sub-groups as minSubGroup asks for; KAI asks for all of them",
            )
    for name, same in by_name.items():
        if len(same) > 1:
            where = some(sorted(group.metadata.namespace for group in same))
            sentence = f"KAI's scheduler mixes up those of {len(same)} namespaces ({where}): no longer"
            yield Item(Outlook.CHANGES, f"PodGroup {name}", "metadata.name", sentence)
    if groups:
        yield Item(
            Outlook.CHANGES,
            counted(len(groups), "PodGroup"),
            "status",
            "nothing changes but the status, which also says phase, conditions and numbers of pods",
        )


def _of_pods(installation: Installation) -> Iterator[Item]:
    spread: list[Pod] = []
    odd: list[tuple[Pod, str]] = []
    for pod in installation.own_pods:
        if any(each.whenUnsatisfiable == "DoNotSchedule" for each in pod.spec.topologySpreadConstraints):
            spread.append(pod)
        if not pod.spec.nodeName:
            try:
                share_of(pod.metadata.annotations)
            except UnusableShare as error:
                odd.append((pod, str(error)))
    if spread:
        yield Item(
            Outlook.CHANGES,
            counted(len(spread), "Pod"),
            "spec.topologySpreadConstraints",
            f"constraints that say DoNotSchedule hold, and KAI ignores them ({_examples(spread)})",
        )
    for pod, reason in odd:
        yield Item(
            Outlook.ACTION,
            named(pod),
            "metadata.annotations",
            f"waits with a reason, where KAI ignores the annotation and starts it without a GPU: {reason}",
            "correct the workload's annotation",
            f"kubectl get pod -n {pod.metadata.namespace} {pod.metadata.name} -o yaml",
        )
    reservations = [
        pod
        for pod in installation.bundle.of(Pod)
        if pod.metadata.labels.get(keys.APP_LABEL) == installation.reservation_app
        and pod.metadata.namespace == installation.reservation_namespace
    ]
    if reservations:
        sentence = "nothing changes: GPUs stay reserved, with KAI's image, until the last pod that shares them is gone"
        yield Item(Outlook.KEEP, counted(len(reservations), "reservation pod"), "", sentence)
    if installation.own_pods:
        waiting = sum(not pod.spec.nodeName for pod in installation.own_pods)
        yield Item(
            Outlook.KEEP,
            counted(len(installation.own_pods), "Pod"),
            "",
            f"nothing changes: what runs goes on, what waits ({waiting}) waits on; labels mean the same",
        )


def _of_bind_requests(installation: Installation) -> Iterator[Item]:
    requests = installation.bundle.of(BindRequest)
    done = [each for each in requests if each.status.phase == "Succeeded"]
    failed = [each for each in requests if each.status.phase == "Failed"]
    pending = [each for each in requests if each.status.phase not in ("Succeeded", "Failed")]
    if pending:
        yield Item(
            Outlook.ACTION,
            counted(len(pending), "BindRequest"),
            "status.phase",
            f"not carried out yet: {some(each.key for each in pending)}",
            "let KAI's binder finish before it is stopped; what is left is carried out by Bosket's",
            "kubectl get bindrequests -A",
        )
    if failed:
        sentence = f"failed, and decided on anew: {some(each.key for each in failed)}"
        yield Item(Outlook.CHANGES, counted(len(failed), "BindRequest"), "status.phase", sentence)
    if done:
        yield Item(Outlook.KEEP, counted(len(done), "BindRequest"), "", "nothing changes: kept until the pod is gone")


def _of_budgets(installation: Installation) -> Iterator[Item]:
    """Evictions; and the budgets that guard a pod of ours, which KAI doesn't ask."""
    if installation.own_pods:
        yield Item(
            Outlook.CHANGES,
            "evictions",
            "",
            "preempted pods are evicted through the eviction API instead of deleted, with the condition "
            "DisruptionTarget",
        )
    for budget in installation.bundle.of(PodDisruptionBudget):
        try:
            selector = label_selector(budget.spec.selector)
        except InvalidSelector:
            continue  # it guards nobody
        guarded = [
            pod
            for pod in installation.own_pods
            if pod.metadata.namespace == budget.metadata.namespace and selector.matches(pod.metadata.labels)
        ]
        if guarded:
            yield Item(
                Outlook.CHANGES,
                named(budget),
                "",
                f"is respected when pods are preempted, and KAI doesn't ask it ({_examples(guarded)}); the "
                "scheduler's --evict-by-deletion restores that",
            )


def _examples(pods: Iterable[Pod]) -> str:
    return some(pod.key for pod in pods)


def _is_duration(text: str) -> bool:
    try:
        parse_duration(text)
    except InvalidDuration:
        return False
    return True
