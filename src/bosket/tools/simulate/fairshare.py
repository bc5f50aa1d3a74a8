"""Fair shares of made-up queues: KAI's request, by the division that the scheduler itself uses.

The request is that of KAI's fair-share simulator; `parentQueue` makes a tree of the queues, `usage` says what part of
the cluster a queue used in the past. The request of a queue with others below it is the sum of theirs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from bosket.api.document import UnreadableDocument, read_json
from bosket.api.time import InvalidTime, parse_time
from bosket.scheduler.model.queue import UNLIMITED, Queue, QueueTree, build_tree
from bosket.scheduler.model.resource import NOTHING, QueueAmounts, plus
from bosket.scheduler.plugins.proportion.share import divide_among
from bosket.tools.simulate.document import InvalidDocument, Report, fields_of, items_of

RESOURCES: Final = ("gpu", "cpu", "memory")
#: What a queue wants that doesn't say.
_MUCH: Final = 100_000.0
#: When a queue was made that doesn't say: after all others, in the order of the list.
_RECENTLY: Final = 1e12


class _Share(msgspec.Struct, frozen=True):
    deserved: float = 0.0
    request: float = _MUCH
    overquotaweight: float = 1.0
    maxallowed: float = UNLIMITED
    usage: float = 0.0


class _Shares(msgspec.Struct, frozen=True):
    """A queue that doesn't mention CPU or memory deserves all of it; one that does has a quota of 0 unless it says."""

    gpu: Any = msgspec.field(default_factory=dict)
    cpu: Any = msgspec.field(default_factory=lambda: {"deserved": UNLIMITED})
    memory: Any = msgspec.field(default_factory=lambda: {"deserved": UNLIMITED})


class _Queue(msgspec.Struct, frozen=True):
    uid: str
    name: str = ""
    parentqueue: str = ""
    childqueues: Any = None  # KAI's format has it; parents say enough
    priority: int = 0
    creationtimestamp: str = ""
    resourceshare: Any = {}


class _Request(msgspec.Struct, frozen=True):
    totalresource: Any = {}
    queues: Any = []


def simulate(data: bytes, k: float, report: Report) -> dict[str, dict[str, float]]:
    """The fair share of every queue in the request, as KAI's simulator answers; raises `InvalidDocument`."""
    try:
        document = read_json(data)
    except UnreadableDocument as error:
        raise InvalidDocument(str(error)) from error
    request = fields_of("", document, _Request, report)
    total = _total(request.totalresource, report)
    asked = _read_queues(request.queues, report)
    tree = build_tree((queue for queue, _ in asked.values()), {})
    for name, reason in sorted(tree.refused.items()):
        raise InvalidDocument(f"queue {name}: {reason}")
    usage = [_amounts(asked[queue.name][1], "usage") for queue in tree.queues]
    shares = divide_among(tree, total, _requests(tree, asked), usage, k)
    by_name = {queue.name: share for queue, share in zip(tree.queues, shares, strict=True)}
    return {uid: dict(zip(RESOURCES, by_name[uid], strict=True)) for uid in asked}


_Asked = Mapping[str, tuple[Queue, tuple[_Share, ...]]]  #: by uid


def _read_queues(value: Any, report: Report) -> _Asked:
    asked: dict[str, tuple[Queue, tuple[_Share, ...]]] = {}
    for number, (where, item) in enumerate(items_of("queues", value)):
        given = fields_of(where, item, _Queue, report)
        if not given.uid or given.uid in asked:
            raise InvalidDocument(f"{where}.uid is {given.uid!r}, each queue must have its own")
        section = f"{where}.resourceShare"
        sections = fields_of(section, given.resourceshare, _Shares, report)
        shares = tuple(_share(f"{section}.{resource}", getattr(sections, resource), report) for resource in RESOURCES)
        asked[given.uid] = (_queue(where, given, shares, _RECENTLY + number), shares)
    return asked


def _queue(where: str, given: _Queue, shares: tuple[_Share, ...], created: float) -> Queue:
    if given.creationtimestamp:
        try:
            created = parse_time(given.creationtimestamp)
        except InvalidTime as error:
            raise InvalidDocument(f"{where}.creationTimestamp: {error}") from error
    return Queue(
        name=given.uid,
        parent=given.parentqueue,
        display_name=given.name,
        priority=given.priority,
        created=created,
        quota=_amounts(shares, "deserved"),
        limit=_amounts(shares, "maxallowed"),
        weight=_amounts(shares, "overquotaweight"),
    )


def _share(where: str, value: Any, report: Report) -> _Share:
    share = fields_of(where, value, _Share, report)
    for name in share.__struct_fields__:
        amount = getattr(share, name)
        unlimited = name in ("deserved", "maxallowed") and amount == UNLIMITED
        if not unlimited and not (math.isfinite(amount) and amount >= 0):
            raise InvalidDocument(f"{where}.{name} is {amount:g}, it must be 0 or more")
    return share


def _total(value: Any, report: Report) -> QueueAmounts:
    class Total(msgspec.Struct, frozen=True):
        gpu: float = 0.0
        cpu: float = 0.0
        memory: float = 0.0

    total = fields_of("totalResource", value, Total, report)
    for name in RESOURCES:
        amount = getattr(total, name)
        if not (math.isfinite(amount) and amount >= 0):
            raise InvalidDocument(f"totalResource.{name} is {amount:g}, it must be 0 or more")
    return total.gpu, total.cpu, total.memory


def _requests(tree: QueueTree, asked: _Asked) -> list[QueueAmounts]:
    requests = [NOTHING] * len(tree.queues)
    for row, queue in enumerate(tree.queues):
        if not tree.children[row]:
            for step in tree.paths[row]:
                requests[step] = plus(requests[step], _amounts(asked[queue.name][1], "request"))
    return requests


def _amounts(shares: tuple[_Share, ...], name: str) -> QueueAmounts:
    gpu, cpu, memory = (float(getattr(share, name)) for share in shares)
    return gpu, cpu, memory
