"""Changes of the gang itself: its gates, how many members it needs, and what each of them asks for."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator

import msgspec

from bosket.api.core import Container, Pod
from bosket.api.keys import GPU_MEMORY_ANNOTATION, SUBGROUP_LABEL
from bosket.api.object import ObjectMeta
from bosket.api.quantity import Quantity, to_int, to_milli
from bosket.scheduler.answers.candidate import Candidate, Patches
from bosket.scheduler.answers.change import ObjectPatch
from bosket.scheduler.answers.patching import Patching, creation
from bosket.scheduler.answers.trial import Trial
from bosket.scheduler.model.job import Job, PodSet
from bosket.scheduler.model.task import TaskStatus

GIB = 2**30
MIB_PER_GIB = 1024
_GPU_NAMES = ("nvidia.com/gpu", "amd.com/gpu")


def of_gang(trial: Trial) -> Iterator[Candidate]:
    """Candidates for the job's owner."""
    job = trial.job
    yield from _gates(job)
    yield from _other_subgroups(job)
    yield from _more_pods(job)
    yield from _fewer_members(job)
    yield from _smaller_requests(job)


def waiting_pods(job: Job) -> list[Pod]:
    """The job's pods that have no node yet."""
    return [task.pod for task in job.tasks if task.status in (TaskStatus.PENDING, TaskStatus.GATED)]


def _gates(job: Job) -> Iterator[Candidate]:
    gated = [task.pod for task in job.tasks if task.status == TaskStatus.GATED]
    if not gated:
        return
    patches = [patch for pod in gated for patch in Patching(pod).remove("spec", "schedulingGates").patch]
    names = sorted({gate.name for pod in gated for gate in pod.spec.schedulingGates})
    sentence = f"lift the scheduling gate {', '.join(names)} of {_pods(len(gated))}"
    yield Candidate.single("user", "gates", sentence, *patches)


def _other_subgroups(job: Job) -> Iterator[Candidate]:
    """Pods that name a sub-group which the pod group doesn't have, in the one that sounds most like it."""
    leaves = [each.name for each in job.pod_sets]
    if not job.orphan_tasks or not job.group.spec.subGroups:
        return
    patches: list[ObjectPatch] = []
    for task in job.orphan_tasks:
        (name,) = difflib.get_close_matches(task.subgroup, leaves, 1, 0.0) or leaves[:1]
        patches += Patching(task.pod).set("metadata", "labels", SUBGROUP_LABEL, value=name).patch
    wrong = ", ".join(dict.fromkeys(task.subgroup for task in job.orphan_tasks))
    sentence = f"name a sub-group that there is ({', '.join(leaves)}) instead of {wrong}"
    yield Candidate.single("user", "subgroup", sentence, *patches)


def _more_pods(job: Job) -> Iterator[Candidate]:
    """Pods that the gang needs and that don't exist, like those that do."""
    short = [each for each in job.pod_sets if each.alive < each.min_available and each.tasks]
    if not short or any(each.alive < each.min_available and not each.tasks for each in job.pod_sets):
        return
    made = [_copy(each.tasks[0].pod, number) for each in short for number in range(each.min_available - each.alive)]
    sentence = f"create the {_pods(len(made))} that the gang lacks"
    yield Candidate.single("user", "more-pods", sentence, *map(creation, made), in_template=True)


def _copy(pod: Pod, number: int) -> Pod:
    metadata = ObjectMeta(
        name=f"{pod.metadata.name}-more-{number}",
        namespace=pod.metadata.namespace,
        uid=f"{pod.metadata.uid}-more-{number}",
        labels=pod.metadata.labels,
        annotations=pod.metadata.annotations,
        ownerReferences=pod.metadata.ownerReferences,
        creationTimestamp=pod.metadata.creationTimestamp,
    )
    spec = msgspec.structs.replace(pod.spec, nodeName="")
    return msgspec.structs.replace(pod, metadata=metadata, spec=spec, status=type(pod.status)(phase="Pending"))


def _fewer_members(job: Job) -> Iterator[Candidate]:
    for pod_set in sorted(job.pod_sets, key=lambda each: -each.min_available):
        if pod_set.min_available > 1:
            yield _with_fewer(job, pod_set)


def _with_fewer(job: Job, pod_set: PodSet) -> Candidate:
    group, least = job.group, pod_set.min_available
    path: tuple[str | int, ...] = ("spec", "minMember")
    where = ""
    if group.spec.subGroups:
        number = next(place for place, each in enumerate(group.spec.subGroups) if each.name == pod_set.name)
        path, where = ("spec", "subGroups", number, "minMember"), f" of sub-group {pod_set.name}"
    return Candidate(
        "user",
        "fewer-members",
        lambda size: Patching(group).set(*path, value=least - size).patch,
        lambda size: f"start with {least - size} of {least} pods{where} (minMember)",
        most=least - 1,
        is_number=True,
    )


def _smaller_requests(job: Job) -> Iterator[Candidate]:
    pods = waiting_pods(job)
    gpus = max((_gpus(pod) for pod in pods), default=0)
    if gpus > 1:
        yield Candidate(
            "user",
            "smaller-request",
            lambda size: _all(pods, lambda pod: _limited_gpus(pod, gpus - size)),
            lambda size: f"ask for {gpus - size} instead of {gpus} GPUs per pod",
            most=gpus - 1,
            is_number=True,
            in_template=True,
            has_commands=False,
        )
    yield from _less_gpu_memory(job, pods)
    for name, unit, word in (("cpu", 1000, "CPU cores"), ("memory", GIB, "GiB of memory")):
        most = max((_asked(pod, name) for pod in pods), default=0)
        steps = -(-most // unit)
        if steps > 1:
            yield _less_of(pods, name, unit, word, steps)


def _less_gpu_memory(job: Job, pods: list[Pod]) -> Iterator[Candidate]:
    """Of pods that ask for an amount of a shared GPU's memory."""
    shares = {task.pod_class.share.memory_mib for task in job.tasks if task.pod_class.share is not None}
    steps = max(shares, default=0) // MIB_PER_GIB
    if steps <= 1:
        return

    def smaller(size: int) -> Patches:
        text = str((steps - size) * MIB_PER_GIB)
        return _all(
            pods, lambda pod: Patching(pod).set("metadata", "annotations", GPU_MEMORY_ANNOTATION, value=text).patch
        )

    yield Candidate(
        "user",
        "smaller-request",
        smaller,
        lambda size: f"ask for {steps - size} GiB of GPU memory per pod",
        most=steps - 1,
        is_number=True,
        in_template=True,
        has_commands=False,
    )


def _less_of(pods: list[Pod], name: str, unit: int, word: str, steps: int) -> Candidate:
    def smaller(size: int) -> Patches:
        return _all(pods, lambda pod: _limited(pod, name, (steps - size) * unit))

    return Candidate(
        "user",
        "smaller-request",
        smaller,
        lambda size: f"ask for at most {steps - size} instead of {steps} {word} per pod",
        most=steps - 1,
        is_number=True,
        in_template=True,
        has_commands=False,
    )


def _all(pods: list[Pod], change: Callable[[Pod], Patches]) -> Patches:
    return tuple(patch for pod in pods for patch in change(pod))


def _gpus(pod: Pod) -> int:
    return max(
        (to_int(amount) for each in pod.spec.containers for name, amount in _requests(each).items()
         if name in _GPU_NAMES),
        default=0,
    )  # fmt: skip


def _requests(container: Container) -> dict[str, Quantity]:
    return {**container.resources.limits, **container.resources.requests}


def _asked(pod: Pod, name: str) -> int:
    read = to_milli if name == "cpu" else to_int
    return max((read(_requests(each).get(name, "0")) for each in pod.spec.containers), default=0)


def _limited_gpus(pod: Pod, most: int) -> Patches:
    patching = Patching(pod)
    for number, each in enumerate(pod.spec.containers):
        for part in ("requests", "limits"):
            for name, amount in getattr(each.resources, part).items():
                if name in _GPU_NAMES and to_int(amount) > most:
                    patching.set("spec", "containers", number, "resources", part, name, value=str(most))
    return patching.patch


def _limited(pod: Pod, name: str, most: int) -> Patches:
    patching = Patching(pod)
    text = f"{most}m" if name == "cpu" else str(most)
    read = to_milli if name == "cpu" else to_int
    for number, each in enumerate(pod.spec.containers):
        for part in ("requests", "limits"):
            amount = getattr(each.resources, part).get(name)
            if amount is not None and read(amount) > most:
                patching.set("spec", "containers", number, "resources", part, name, value=text)
    return patching.patch


def _pods(count: int) -> str:
    return f"{count} pod{'s' if count != 1 else ''}"
