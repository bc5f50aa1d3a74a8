"""2,000 generated clusters: are evictions minimal, and how many fewer are there than without pruning?

Clusters of all families of the differential corpus' generator, and of `tests/scheduler/random_cluster.py`. Each is
decided with and without pruning, and once more for each victim of its first preemptor, with that victim protected
(`tests/victims/minimal.py`). On the recorded cycles no more pods may be evicted than KAI evicts.
`BOSKET_EVICTIONS_CLUSTERS` says how many clusters there are.
"""

from __future__ import annotations

import importlib.util
import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import msgspec

from benchmarks.report import Column, Report, number, progress
from bosket.api.object import ObjectKey
from bosket.scheduler.actions import eviction
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide, known_part
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.recording.recorded import read
from tests.scheduler.random_cluster import RandomCluster
from tests.victims.minimal import Cycle, Minimality, minimality, with_protected

CLUSTERS = int(os.environ.get("BOSKET_EVICTIONS_CLUSTERS", "2000"))
CORPUS = Path(__file__).resolve().parents[2] / "shared" / "conformance" / "differential"
#: Any time between 2021 and 2090 gives the same answer to the corpus' clusters.
NOW = 1.75e9
ACTIONS = ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")
RANDOM = "random clusters"
#: How many fewer pods must be evicted than without pruning.
LEAST_SAVING_PERCENT = 10.0

COLUMNS = (
    Column("family", "family"),
    Column("clusters", "clusters", number()),
    Column("evicting", "with victims", number()),
    Column("minimal", "minimal", number()),
    Column("by_right", "fewer have a better right", number()),
    Column("needless", "needless", number()),
    Column("unpruned", "evicted unpruned", number()),
    Column("evicted", "evicted", number()),
    Column("saved_percent", "fewer", number(1, " %")),
)
Json = dict[str, Any]


def run() -> Report:
    report = Report("Evictions on generated clusters", COLUMNS)
    started = time.process_time()
    sums: Counter[str] = Counter()
    families = _families()
    for family, cycles in families.items():
        progress(f"{family}: {CLUSTERS // len(families)} clusters")
        row = _measure(cycles)
        sums.update(row)
        report.rows.append({"family": family, **_figures(row)})
    report.rows.append({"family": "all", **_figures(sums)})
    report.expect(not sums["needless"], f"evictions are minimal: {sums['needless']} cluster(s) with needless ones")
    saved = _figures(sums)["saved_percent"]
    report.expect(saved >= LEAST_SAVING_PERCENT, f"{LEAST_SAVING_PERCENT:g} % fewer evictions: {saved:.1f} %")
    ours, theirs, more = _against_kai()
    report.expect(not more, f"never more evictions than KAI: {', '.join(more)}")
    report.notes.append(f"On the recorded cycles {ours:,} pods are evicted, by KAI {theirs:,}.")
    report.notes.append(f"{time.process_time() - started:.0f} s of CPU.")
    return report


def _families() -> Mapping[str, Iterator[Cycle]]:
    generator = _generator()
    count = CLUSTERS // (len(generator.FAMILIES) + 1)
    found = {family: _recorded_cycles(generator, family, count) for family in generator.FAMILIES}
    found[RANDOM] = (_random_cycle(seed) for seed in range(CLUSTERS - count * len(generator.FAMILIES)))
    return found


def _recorded_cycles(generator: ModuleType, family: str, count: int) -> Iterator[Cycle]:
    return (_recorded_cycle(generator.case(family, seed)["snapshot"]) for seed in range(10_000, 10_000 + count))


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gen_random", CORPUS / "gen_random.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _random_cycle(seed: int) -> Cycle:
    dice = random.Random(seed)
    cluster = RandomCluster(seed, nodes=dice.randint(1, 6), queues=dice.randint(1, 8), jobs=dice.randint(4, 30))
    return with_protected(cluster.objects(), Configuration(actions=ACTIONS))


def _recorded_cycle(snapshot: Json) -> Cycle:
    def cycle(protected: ObjectKey | None) -> tuple[Snapshot, Decisions]:
        objects = snapshot["rawObjects"]
        groups = [_protected(each) if _key(each) == protected else each for each in objects.get("podGroups", ())]
        return _decided({**snapshot, "rawObjects": {**objects, "podGroups": groups}})

    return cycle


def _decided(snapshot: Json) -> tuple[Snapshot, Decisions]:
    recorded = read(msgspec.json.encode(snapshot), "generated")
    seen = recorded.snapshot(NOW)
    return seen, decide(seen, known_part(recorded.configuration)[0])


def _key(group: Json) -> ObjectKey:
    return ObjectKey(group["metadata"].get("namespace", ""), group["metadata"]["name"])


def _protected(group: Json) -> Json:
    return {**group, "spec": {**group["spec"], "preemptibility": "non-preemptible"}}


def _measure(cycles: Iterator[Cycle]) -> Counter[str]:
    row: Counter[str] = Counter()
    for cycle in cycles:
        row["clusters"] += 1
        row["evicted"] += _evicted(cycle(None)[1])
        with patch.object(eviction, "pruned", lambda solution, _rules: solution):
            row["unpruned"] += _evicted(cycle(None)[1])
        found = minimality(cycle)
        row["evicting"] += found is not Minimality.NO_VICTIMS
        row[found.name.lower()] += 1
    return row


def _evicted(decisions: Decisions) -> int:
    return len({each.task for each in decisions.evictions})


def _figures(row: Counter[str]) -> Json:
    names = ("clusters", "evicting", "minimal", "by_right", "needless", "unpruned", "evicted")
    saved = 100 * (1 - row["evicted"] / row["unpruned"]) if row["unpruned"] else 0.0
    return {**{name: row[name] for name in names}, "saved_percent": saved}


def _against_kai() -> tuple[int, int, list[str]]:
    """Pods that are evicted on the recorded cycles, by us and by KAI, and the cases with more of ours."""
    ours = theirs = 0
    more: list[str] = []
    for file in sorted((CORPUS / "cases").glob("*.jsonl")):
        for line in file.read_bytes().splitlines():
            case = msgspec.json.decode(line)
            mine = _evicted(_decided(case["snapshot"])[1])
            his = len({each["pod"] for each in case["expected"]["evictions"]})
            ours, theirs = ours + mine, theirs + his
            if mine > his:
                more.append(f"{case['id']} ({mine} instead of {his})")
    return ours, theirs, more
