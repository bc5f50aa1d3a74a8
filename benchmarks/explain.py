"""Whether `explain` is right: labelled jobs, each change replayed by a program of its own, and what an answer costs.

Small clusters first, built so that the reason is known (`benchmarks.explain_cases`); then jobs that wait in one large
cluster, for the cost.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec

from benchmarks.explain_cases import Case, cases, crowd
from benchmarks.explain_verifier import starts
from benchmarks.report import Column, Figures, Report, number, progress
from bosket.scheduler.answers.cluster import Cluster
from bosket.scheduler.answers.explain import explain
from bosket.scheduler.recording.recorded import read

CASES = 300
#: (nodes, seconds of CPU that an answer with changes may take)
SIZES = ((500, 0.5), (5000, 2.0))
SENTENCE_SECONDS = 0.1
#: Jobs of a large cluster that are asked about.
ASKED = 30

COLUMNS = (
    Column("label", "reason built in"),
    Column("jobs", "jobs", number()),
    Column("verdict", "verdict right", number()),
    Column("reason", "reason right", number()),
    Column("offered", "with changes", number()),
    Column("changes", "changes", number()),
    Column("replayed", "start when replayed", number()),
    Column("cpu_ms", "CPU, p95", number(0, " ms")),
)
COST_COLUMNS = (
    Column("nodes", "nodes", number()),
    Column("pods", "pods", number()),
    Column("jobs", "jobs asked about", number()),
    Column("sentence_ms", "sentence, p95", number(0, " ms")),
    Column("changes_ms", "with changes, p95", number(0, " ms")),
    Column("complete", "complete", number()),
    Column("offered", "with changes", number()),
    Column("replayed", "changes that start it", str),
)


def run(count: int = CASES, sizes: Iterable[tuple[int, float]] = SIZES) -> Report:
    """Labelled jobs, then the cost in large clusters."""
    report = Report("Explain: labelled jobs that wait", COLUMNS)
    by_label: dict[str, list[Figures]] = defaultdict(list)
    for case in cases(count):
        progress(f"explain: {case.name}")
        by_label[case.label].append(judged(case))
    for label, rows in by_label.items():
        report.rows.append(_summed(label, rows))
    everything = [row for rows in by_label.values() for row in rows]
    report.rows.append(_summed("all", everything))
    _promise(report, everything)
    report.details.append(_cost(sizes))
    report.broken += [each for detail in report.details for each in detail.broken]
    return report


def judged(case: Case) -> dict[str, Any]:
    """What `explain` says of one case, compared with its label; each change replayed."""
    recording = case.recording()
    cluster = Cluster(read(recording))
    answer = explain(cluster, case.key)
    changes = json.loads(msgspec.json.encode(answer.changes))
    return {
        "case": case.name,
        "expected": case.verdict,
        "verdict": answer.verdict == case.verdict,
        "reason": answer.reason.code in case.codes and answer.reason.tier in case.tiers,
        "offered": bool(changes),
        "changes": len(changes),
        "replayed": sum(starts(recording, each["patch"], *case.key) for each in changes),
        "steps": all(each["stepLessFails"] is not False for each in changes),
        "cpu_ms": answer.cpu_ms,
    }


def _summed(label: str, rows: list[Figures]) -> Figures:
    names = ("verdict", "reason", "offered", "changes", "replayed")
    return {
        "label": label,
        "jobs": len(rows),
        **{name: sum(row[name] for row in rows) for name in names},
        "cpu_ms": _p95([row["cpu_ms"] for row in rows]),
    }


def _promise(report: Report, rows: list[Figures]) -> None:
    share = sum(row["reason"] for row in rows) / len(rows)
    report.expect(share >= 0.97, f"the reason is right in {share:.1%} of the cases, at least 97 % are promised")
    wrong = [row["case"] for row in rows if not row["verdict"]]
    report.expect(not wrong, f"the verdict is wrong for {', '.join(wrong)}")
    failed = [row["case"] for row in rows if row["replayed"] < row["changes"] or not row["steps"]]
    report.expect(not failed, f"a change that was offered doesn't start {', '.join(failed)}")
    for verdict, least in (("not-now", 0.9), ("never", 0.8)):
        those = [row for row in rows if row["expected"] == verdict]
        offered = sum(row["offered"] for row in those) / max(1, len(those))
        report.expect(offered >= least, f"{verdict}: changes for {offered:.0%}, at least {least:.0%} are promised")


def _cost(sizes: Iterable[tuple[int, float]]) -> Report:
    report = Report("Explain: what an answer costs", COST_COLUMNS)
    for nodes, most in sizes:
        recording, keys, pods = crowd(nodes, ASKED)
        cluster = Cluster(read(recording))
        cluster.snapshot()
        sentences, answers, complete, offered, replayed, changes = [], [], 0, 0, 0, 0
        for key in keys:
            progress(f"explain: {nodes} nodes, {key}")
            began = time.process_time()
            explain(cluster, key, seconds=0)
            sentences.append((time.process_time() - began) * 1000)
            began = time.process_time()
            answer = explain(cluster, key)
            answers.append((time.process_time() - began) * 1000)
            complete += answer.complete
            offered += bool(answer.changes)
            for each in answer.changes[:1]:
                changes += 1
                patches = json.loads(msgspec.json.encode(each.patch))
                replayed += starts(recording, patches, *key)
        row: dict[str, Any] = {
            "nodes": nodes,
            "pods": pods,
            "jobs": len(keys),
            "sentence_ms": _p95(sentences),
            "changes_ms": _p95(answers),
            "complete": complete,
            "offered": offered,
            "replayed": f"{replayed} of {changes}",
        }
        report.rows.append(row)
        if nodes <= 500:
            promised = f"{SENTENCE_SECONDS * 1000:.0f} are promised"
            text = f"{row['sentence_ms']:.0f} ms for a sentence at {nodes} nodes, {promised}"
            report.expect(row["sentence_ms"] <= SENTENCE_SECONDS * 1000, text)
        text = f"{row['changes_ms']:.0f} ms with changes at {nodes} nodes, {most * 1000:.0f} are promised"
        report.expect(row["changes_ms"] <= most * 1000, text)
        report.expect(replayed == changes, f"at {nodes} nodes {changes - replayed} changes don't start their job")
    return report


def _p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)] if values else 0.0
