"""The answer to why a job waits: a structured reason for programs, and one sentence for people."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import msgspec

Tier = Literal["spec", "queue", "fairness", "nodes", "topology", "order"]

#: Codes of reasons for which KAI has none.
GATES_CLOSED: Final = "GatesClosed"
MIN_RUNTIME: Final = "MinRuntimeNotElapsed"
EVICTION_REFUSED: Final = "EvictionRefused"
SEARCH_CUT_SHORT: Final = "SearchCutShort"
NOT_TRIED: Final = "NotTried"
BINDING_FAILED: Final = "BindingFailed"
TERMINATING: Final = "WaitingForTermination"
LOWER_IN_ORDER: Final = "LowerInOrder"
OVER_FAIR_SHARE: Final = "OverFairShare"
TOPOLOGY_UNUSABLE: Final = "TopologyUnusable"
QUEUE_UNUSABLE: Final = "QueueUnusable"
UNKNOWN_SUBGROUP: Final = "UnknownSubGroup"

#: A sentence is cut there: an event holds 1024 characters, and KAI's texts follow it.
MOST_CHARACTERS: Final = 400


class Reason(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a job waits, for programs. Amounts are GPUs, CPU cores, GiB, or the resource's own unit."""

    code: str  #: KAI's name of the reason, or Bosket's where KAI has none
    tier: Tier  #: what it lies in
    resource: str = ""  #: "gpu", "cpu", "memory", "pods", "gates" or the name of an extended resource
    need: float | None = None  #: what the job asks for
    have: float | None = None  #: tiers queue and fairness: what `scope` holds already; others: what is free there
    limit: float | None = None  #: what `scope` may hold, or the largest block that is free or that there is
    scope: str = ""  #: the queue, the level of a topology, the sub-group, "node" or "cluster"
    objections: dict[str, int] = {}  #: by what they say: how many nodes may not take the pods, whatever is free


class Answer(msgspec.Struct, frozen=True):
    """Why a job waits."""

    reason: Reason
    sentence: str  #: one line, without a full stop


class WordedReason(NamedTuple):
    """An answer in the making."""

    reason: Reason
    clauses: tuple[str, ...]  #: empty ones are left out
    in_line: bool = False  #: whether the sentence ends with the job's position in its queue

    def answer(self, position: str) -> Answer:
        """One line, whatever the names and texts in it."""
        clauses = filter(None, (*self.clauses, position if self.in_line else ""))
        text = " ".join("; ".join(clauses).split())
        if len(text) > MOST_CHARACTERS:
            text = text[: MOST_CHARACTERS - 1] + "…"
        return Answer(self.reason, text)
