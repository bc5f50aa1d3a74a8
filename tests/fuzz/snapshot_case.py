"""Fuzzed snapshots: a realistic cluster, some changes that break its sense, and two scheduling cycles on it.

A case follows from its seed alone. `run` raises what the scheduler raises, and `Slow` when a cycle takes too much of
the processor; `shrink` takes objects and fields away while the case still fails, so that what is left is worth
reading. The test of `make test` and `python -m benchmarks fuzz` both go through here.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from bosket.api.core import Namespace, PersistentVolumeClaimVolumeSource, Volume
from bosket.api.object import KubeObject, LabelSelector, ObjectMeta
from bosket.api.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from bosket.kube.codec import strip_nulls
from bosket.scheduler.answers.outcome import answer
from bosket.scheduler.configuration.configuration import DEFAULT_PLUGINS, Configuration, PluginChoice
from bosket.scheduler.decide import decide
from bosket.scheduler.metrics.cycle import SchedulerMetrics
from bosket.scheduler.model.usage import Usage
from bosket.scheduler.recording.object_lists import LISTS
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import node, numa_zones, pod, pod_group, queue
from bosket.testing.cluster import NOW
from bosket.testing.device import device, device_class, device_slice, named_claims, resource_claim
from tests.fuzz.mutation import Json, Mutator, Objects
from tests.scheduler import storage
from tests.scheduler.random_cluster import RandomCluster
from tests.scheduler.transcript import recording_of

#: CPU seconds that one cycle may take.
CYCLE_SECONDS = 10.0
#: Random clusters that cases begin with.
_BASES = 64

PLAIN = Configuration()
EVERYTHING = Configuration(
    plugins=(
        *(each for each in DEFAULT_PLUGINS if each.name not in ("gpupack", "nodeplacement")),
        PluginChoice("gpuspread"),
        PluginChoice("nodeplacement", {"cpu": "spread", "gpu": "spread"}),
        PluginChoice("podaffinity"),
        PluginChoice("numa", {}),
    )
)


class Survived(BaseException):
    """A defect that the scheduler would have gone on after. Not an Exception: nobody may catch it."""


class Slow(Exception):
    """A cycle that took more of the processor than any may."""


@dataclass(frozen=True)
class Case:
    """The objects that the scheduler sees in a first cycle, and in a second one."""

    seed: int
    first: Objects
    second: Objects

    @property
    def configuration(self) -> Configuration:
        return EVERYTHING if self.seed % 3 == 0 else PLAIN

    def as_recording(self) -> Json:
        """A snapshot file's content. Where the first cycle is enough there is no second."""
        return {"rawObjects": self.first, "second": self.second}


def make(seed: int, recordings: Sequence[Path] = ()) -> Case:
    """The case of a seed, on a random cluster or a recorded one."""
    dice = Random(seed)
    if recordings and dice.random() < 0.3:
        objects = msgspec.json.decode(_recorded(dice.choice(recordings)))
    else:
        objects = msgspec.json.decode(_base(dice.randrange(_BASES)))
    _change(dice, objects, dice.choice((1, 1, 2, 3, 5, 10, 20)))
    first = msgspec.json.encode(objects)
    _change(dice, objects, dice.choice((1, 2, 5)))
    return Case(seed, msgspec.json.decode(first), objects)


def _change(dice: Random, objects: Objects, times: int) -> None:
    mutator = Mutator(dice, objects)
    for _ in range(times):
        mutator.change()


@cache
def _base(number: int) -> bytes:
    dice = Random(f"base {number}")
    cluster = RandomCluster(number, dice.randint(1, 6), dice.randint(1, 8), dice.randint(0, 8))
    rich = [*_devices(), *_storage(), *_other()] if number % 2 else []
    return msgspec.json.encode(recording_of([*cluster.objects(), *rich])["rawObjects"])


@cache
def _recorded(file: Path) -> bytes:
    """The lists of a recording. In a file with one case a line, the first."""
    with file.open("rb") as lines:
        document = msgspec.json.decode(lines.readline() if file.suffix == ".jsonl" else lines.read())
    raw = document.get("snapshot", document).get("rawObjects") or {}
    return msgspec.json.encode(
        {name: [strip_nulls(each) for each in raw.get(name) or ()] for name in LISTS if raw.get(name)}
    )


# Parts of clusters that random ones don't have


def _devices() -> Iterator[KubeObject]:
    yield device_class(extended="example.com/gpu")
    for where in ("n0", "n1"):
        yield device_slice(
            where, *(device(f"gpu-{number}", capacity={"memory": "8Gi"}, model="A") for number in range(4))
        )
    yield resource_claim("held", devices=("gpu-0",), pool="n0", users=("d-0",))
    yield resource_claim("open")
    yield pod_group("d", min_member=1, queue="q-rich")
    yield queue("q-rich")
    yield pod("d-0").cpu("1").of_group("d").with_spec(resourceClaims=named_claims("held")).running_on("n0").build()
    yield pod("d-1").cpu("1").of_group("d").with_spec(resourceClaims=named_claims("open")).build()
    yield pod("d-2").cpu("1").of_group("d").asks("example.com/gpu", "1").build()


def _storage() -> Iterator[KubeObject]:
    yield storage.storage_class("slow", "a")
    yield storage.volume("disk", "a")
    yield storage.claim("data", "disk")
    yield storage.claim("more")
    yield storage.csi_node("n0", 2)
    yield storage.csi_driver()
    yield storage.capacity("c", "a", "10Gi")
    yield pod_group("s", queue="q-rich")
    source = PersistentVolumeClaimVolumeSource(claimName="more")
    yield pod("s-0").cpu("1").of_group("s").with_spec(volumes=(Volume(name="v", persistentVolumeClaim=source),)).build()


def _other() -> Iterator[KubeObject]:
    yield Namespace(metadata=ObjectMeta(name="default", labels={"team": "a"}))
    yield numa_zones("n0", {"cpu": "16", "memory": "32Gi", "nvidia.com/gpu": "4"}, {"cpu": "16", "memory": "32Gi"})
    labels: dict[str, Any] = {"nvidia.com/mig.strategy": "mixed"}
    yield node("mig", gpus=0, extended={"nvidia.com/mig-1g.5gb": "7"}, **labels)
    yield pod_group("m", queue="q-rich")
    yield pod("m-0").asks("nvidia.com/mig-1g.5gb", "2").of_group("m").build()
    yield pod("f-0").shares_gpu(0.5).of_group("m").in_gpu_groups("g1").running_on("n0").build()
    yield pod("f-1").shares_gpu(0.5).of_group("m").build()
    yield PodDisruptionBudget(
        metadata=ObjectMeta(name="budget", namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(matchLabels={})),
        status=PodDisruptionBudgetStatus(disruptionsAllowed=1),
    )


# Running


def run(case: Case) -> float:
    """Two cycles; gives the CPU seconds of the dearer one. Raises what went wrong."""
    dice = Random(case.seed)
    state = ClusterState(StateOptions(full_hierarchy_fairness=dice.random() < 0.8), _refuse_failures)
    if dice.random() < 0.3:
        state.put_usage(Usage(parts={f"q{number}": (dice.random(), 0.1, 0.0) for number in range(3)}))
    known = _put(state, case.first)
    most = _cycle(state, case.configuration, NOW)
    for gone in _put(state, case.second).keys() ^ known.keys():
        if gone in known:
            state.drop(known[gone])
    return max(most, _cycle(state, case.configuration, NOW + dice.choice((0.0, 1.0, 90.0, 1e6))))


def _refuse_failures(reported: str) -> None:
    """What makes no sense may be reported. What the scheduler goes on after, though it is a defect, is one here."""
    if "the scheduler fails with it" in reported:
        raise Survived(reported)


def _put(state: ClusterState, objects: Objects) -> dict[tuple[str, Any], KubeObject]:
    known: dict[tuple[str, Any], KubeObject] = {}
    for name, each in LISTS.items():
        for item in objects.get(name, ()):
            try:
                obj: KubeObject = msgspec.convert(strip_nulls(item), each.kind)
            except msgspec.ValidationError:
                continue  # so does the informer: it names and counts the object
            state.put(obj)
            known[name, obj.key] = obj
    return known


def _cycle(state: ClusterState, configuration: Configuration, now: float) -> float:
    started = time.process_time()
    snapshot = state.snapshot(now)
    decisions = decide(snapshot, configuration)
    spent = time.process_time() - started
    if spent > CYCLE_SECONDS:
        raise Slow(f"a cycle took {spent:.1f} s of the processor")
    msgspec.json.encode(answer(snapshot, decisions))
    for waiting in decisions.waiting:
        str(waiting.text)
    for eviction in decisions.lasting_evictions:
        str(eviction.text)
    SchedulerMetrics(CollectorRegistry(), configuration).decided(snapshot, decisions, spent)
    state.remember(decisions, now)
    zipped(take(state, StateOptions(), configuration, now))
    return spent


# Shrinking


def shrink(case: Case, fails: Callable[[Case], bool], seconds: float = 60.0) -> Case:
    """The case with as few objects as fail in the same way, found within so many seconds."""
    until = time.monotonic() + seconds

    def still(first: Objects, second: Objects) -> Case | None:
        smaller = Case(case.seed, first, second)
        return smaller if time.monotonic() < until and fails(smaller) else None

    case = still(case.first, case.first) or still(case.second, case.second) or case
    for name in [*LISTS]:
        size = max(len(case.first.get(name, ())), 1)
        while size:
            place = 0
            while place < max(len(case.first.get(name, ())), len(case.second.get(name, ()))):
                without = [_without(each, name, place, size) for each in (case.first, case.second)]
                smaller = still(*without)
                if smaller is None:
                    place += size
                else:
                    case = smaller
            size //= 2
    return case


def _without(objects: Objects, name: str, place: int, count: int) -> Objects:
    them = objects.get(name, [])
    return {**objects, name: [*them[:place], *them[place + count :]]}


def count_readable(objects: Objects) -> int:
    """How many objects the scheduler gets to see."""
    return len([each for name, them in objects.items() for each in them if _readable(name, each)])


def _readable(name: str, item: Json) -> bool:
    try:
        msgspec.convert(strip_nulls(item), LISTS[name].kind)
    except msgspec.ValidationError:
        return False
    return True


def describe(error: BaseException) -> str:
    """The exception and the innermost lines of its way, in one line. Equal texts are the same failure."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    way = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
    return f"{type(error).__name__}: {' '.join(str(error).split())[:120]} ({way})"
