"""Texts that others look for: events, reasons, conditions, refusals. Those that the facts name are ours, word for word.

The facts about KAI and Grove (`../shared/facts`, or `$BOSKET_SHARED/facts`) describe texts in tables and sentences with
gaps; what stands between the gaps must stand in a string of the source. What is no text of a program, or differs on
purpose, is listed with its reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

import bosket
from bosket.api.crd import crd_manifests
from bosket.api.kai import PodGroup, PodGroupSpec, SubGroup
from bosket.services.admission import podgroup
from tests.conformance.cases import shared_file

GROVE, KAI = shared_file("facts/grove.md"), shared_file("facts/kai/08-tools-metrics-events.md")
needs_facts: Final = pytest.mark.shared("facts/grove.md", "facts/kai/08-tools-metrics-events.md")

#: Stands for what a string is filled in with.
_GAP: Final = "\0"

#: What the facts say about texts, between them, and what else they have in quotes.
NO_TEXTS: Final = frozenset(
    """
The queues named are the two leaf queues if they are siblings, otherwise the ancestors that are siblings
also condition PodScheduled=False reason BindingError
condition type
fallback for pods
fit-error text of the pod
followed by two lines, one for the reclaimer and one for the victim
job fit error text
message of 26.3
new line, sorted by text
reasons of the Kubernetes filters as they come
sub-group form names the sub-group
text "no nodes with enough resources were found: " then per distinct reason
when the number of errors ≠ 1
Ever healthy
Ever scheduled
PodGang together
active used
add more easily
all owners, then the pod
all podgroups of
allocate, consolidation, reclaim, preempt, stalegangeviction
at position 0, got
backend fails the PodGang remains
continue, requeue afterwards
ever scheduled/healthy
for deleted nodes
from PodGang
gang satisfied
grove.io/podcliquescalinggroup workload2-0-sg-
has more tasks
label does not exist
minimal job representatives
new UUID group. The placement is
new architecture
non allocated
on the JobSet is an error
or default-scheduler → Workload; koord-scheduler or contains
or default-scheduler → default; else kai
profile enabled
receivedGPU{count int, portion string
requeue after
scenario solver
scheduler CR status is fed back into PodGang.status
seeds rule, CODE breaks ties
single PodGroup per PodGang
sorted by GpuOrder. Take in order until n devices are chosen
status flows back
tasks to allocate
to exactly minAvailable
whole marker creates
→ Koordinator; anything else → PodGang/KAI | label grove.io/scheduler-backend on the PodGang =
""".strip().splitlines()
)
#: Texts that our strings have in another form, or that we don't say.
NOT_OURS: Final = {
    "Unable to schedule pod": "the job's reasons stand there instead",
    "Unable to schedule podgroup": "no heading: the reasons follow each other",
    "capacity: c": "of the detailed form, for each node",
    "couldn't be satisfied for job": "the job and its sub-group are filled in together",
    "none placed: Resources were not found for pod": "the text begins behind the colon",
    "not enough free storage": "in KAI it is: did not have enough free storage",
    "pods while": "the sub-group stands in between",
    "pod group is ready": "Volcano's own, which its condition says; it isn't read",
    "reason Not enough resources for the workload": "the text begins behind the first word",
}
#: Names that we don't use.
NOT_OUR_NAMES: Final = {
    "CreateOrUpdateFailed": "the end of a name; PodCliqueScalingGroupCreateOrUpdateFailed is there",
    "ReplicaDelete": "the middle of a name; PodCliqueSetReplicaDelete… is there",
    "ERR_CONTINUE_RECONCILE_AND_REQUEUE": "never shown",
    "ERR_REQUEUE_AFTER": "never shown",
    "ERR_GET_CLUSTER_TOPOLOGY_LEVELS": "levels are read from a cache, which doesn't fail",
    "ERR_MISSING_PODGANG_LABEL_ON_PODCLIQUE": "the label is put back, and the PodClique waits for it",
    "OverQuota": "a condition of queues that KAI declares and nobody writes",
}


@cache
def strings() -> str:
    """All strings of the source, a line each, with gaps where something is filled in."""
    found: set[str] = set()
    for file in Path(bosket.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            found.add(_text(node))
    return "\n".join(found)


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(each) or _GAP for each in node.values)
    return ""


def fixed_parts(shape: str) -> Iterator[str]:
    """What stands between the gaps of a text: `<name>`, [what may be left out], letters for numbers and names."""
    for part in re.split(r"`?<[^>]*>`?|\[[^\]]*\]|\bns/\w+|\b[A-Zabx]\b|'q'|\bGPUs?\b|`|…|\.\.\.|\([^)]*\)", shape):
        words = part.strip(" .,:;|'\"")
        if len(words.split()) > 1:
            yield words


def _facts() -> dict[str, str]:
    assert GROVE is not None
    return {file.stem: file.read_text() for file in (GROVE, *sorted((GROVE.parent / "kai").glob("0*.md")))}


def sentences() -> Iterator[str]:
    """What KAI's section on messages gives shapes of, and whatever stands in quotes anywhere."""
    facts = _facts()
    events = facts["08-tools-metrics-events"]
    for line in events[events.index("\n# 26. ") : events.index("## 26.5")].splitlines():
        if line.startswith("| ") and not line.startswith("| reason"):
            yield from fixed_parts(line.split(" | ")[2])
        elif line.startswith("- "):
            for shape in re.split(r" ; |; ", line[2:].partition(": ")[2]):
                yield from fixed_parts(shape)
    for text in facts.values():
        for quoted in re.findall(r'"([^"\n]{4,200})"', text):
            yield from fixed_parts(quoted)


def names() -> Iterator[str]:
    """Event reasons, condition types, reasons and codes of errors."""
    facts = _facts()
    grove, events = facts["grove"], facts["08-tools-metrics-events"]
    for line in grove.splitlines():
        if re.match(r"(Conditions?|Reasons|Condition types declared)[ :]|lastErrors codes|PodCreateSuccessful/", line):
            yield from re.findall(r"\b[A-Z][a-z]+(?:[A-Z]+[a-z]*)+\b|\bERR(?:_[A-Z]+)+\b", line)
    for line in events[events.index("\n# 26. ") : events.index("## 26.5")].splitlines():
        if line.startswith("| ") and not line.startswith("| reason"):
            yield line.split(" | ")[0].removeprefix("| ")
    for text in (facts["01-api"], facts["07-controllers-operator"]):
        for line in text.splitlines():
            for told in re.findall(r"reasons:? ((?:`[A-Za-z_/]+`,? ?)+)|types ((?:`[A-Za-z]+`,? ?)+)", line):
                for group in told:
                    yield from (name for each in re.findall(r"`([^`]+)`", group) for name in each.split("/"))


@needs_facts
def test_sentences_of_the_facts_are_ours() -> None:
    missing = {each for each in sentences() if each not in strings()}
    assert missing == NO_TEXTS | NOT_OURS.keys()


@needs_facts
def test_names_of_the_facts_are_ours() -> None:
    missing = {each for each in names() if not re.search(rf"(?<![A-Za-z_]){each}", strings())}
    assert missing == NOT_OUR_NAMES.keys()


def test_warnings_about_pod_groups_are_kais() -> None:
    tree = tuple(SubGroup(name=name, minMember=1) for name in "abcd")
    verdict = podgroup.check(PodGroup(spec=PodGroupSpec(minSubGroup=5, subGroups=tree)), is_update=False)
    assert verdict.warnings == ("minSubGroup (5) exceeds the number of direct child SubGroups (4)",)


@pytest.mark.parametrize(
    "message",
    [
        "topologyConstraint must specify pack or deprecated packDomain",
        "pack must specify at least one of required or preferred",
        "must not set both pack.required and deprecated packDomain",
        "packDomain is deprecated and cannot be used on new workloads; use pack.required",
    ],
)
def test_rules_of_pod_clique_sets_speak_in_groves_words(message: str) -> None:
    (definition,) = (each for each in crd_manifests() if each["metadata"]["name"] == "podcliquesets.grove.io")
    assert f"'message': '{message}'" in str(definition)
