"""Changes to the objects of a snapshot that keep their structure and break their sense.

A cluster is a recording's `rawObjects`: by list, plain dicts. Every change knows the Struct of the object that it
works on, so that what it writes can be decoded, and so reaches the scheduler: fields that are absent are filled in,
references point at other objects or at nothing, amounts are huge, negative or no numbers, texts are what annotations
and labels of this project mean something by. Other changes take, double, rename and link whole objects. All of it
follows from the dice that are given.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec

from bosket.api import keys
from bosket.scheduler.recording.object_lists import LISTS

Json = dict[str, Any]
Objects = dict[str, list[Json]]

#: Labels, annotations and resource names that something in the scheduler reads.
KEYS: Sequence[str] = sorted(
    {value for name, value in vars(keys).items() if name.isupper() and isinstance(value, str) and "/" in value}
    | {
        value
        for name, value in vars(keys).items()
        if name.endswith(("_LABEL", "_ANNOTATION")) and isinstance(value, str)
    }
    | {
        "nvidia.com/gpu",
        "nvidia.com/mig-1g.5gb",
        "nvidia.com/gpu.memory",
        "nvidia.com/gpu.count",
        "nvidia.com/mig.strategy",
    }
    | {"cpu", "memory", "pods", "zone", "rack", "kubernetes.io/hostname", "example.com/fpga", "ephemeral-storage"}
)
#: Amounts, numbers, times, durations and programs, sensible and not.
TEXTS: Sequence[str] = (
    "", "0", "1", "2", "-1", "0.5", "0.33", "0.0001", "1.5", "99", "1e3", "1e308", "1e309", "-1e309", "NaN", "inf",
    "-inf", "9" * 18, "9" * 19, "9" * 400, "-" + "9" * 400, "1E18", "1Ei", "100m", "1n", "0.000000000001", "8Gi",
    "8192", "abc", " 1", "1_000", "0x10", "١", "٣", "é", "x" * 300, "a/b/c", "a,b,,c", ",", "true", "false", "null",
    "{}", "[]", '{"a":', "[[[[[[", '{"0":{"memory":"1"}}', "5s", "-5s", "1000000h", "99999999999h", "1h1h",
    "2023-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2024-02-30T00:00:00Z", "1700000000",
    "NoSchedule", "NoExecute", "In", "NotIn", "Exists", "Gt", "Lt", "DoesNotExist", "Equal", "Always", "Never",
    "Pending", "Running", "Succeeded", "Failed", "Unknown", "ExactCount", "All", "preemptible", "non-preemptible",
    "single", "mixed", "best-effort", "restricted", "single-numa-node", "container", "pod", "ReadWriteOncePod",
    "DoNotSchedule", "ScheduleAnyway", "device.driver == 'x'", "device.attributes['a'].b > 3", "1 / 0 == 1",
    "WaitForFirstConsumer", "Immediate", "Bound", "Honor", "Ignore", "kai-scheduler", "default", "True", "False",
    "Ready",
)  # fmt: skip
INTEGERS: Sequence[int] = (
    0, 1, 2, 3, 7, 8, 64, 1000, -1, -2, 2**31 - 1, -(2**31), 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 10**12,
)  # fmt: skip
FLOATS: Sequence[float] = (
    0.0,
    -0.0,
    0.5,
    1.0,
    -1.0,
    -2.0,
    1e-300,
    5e-324,
    1e300,
    1.7e308,
    -1.7e308,
    0.1 + 0.2,
    1e18,
    3.0,
)
_DEEPEST = 5


class Mutator:
    """Changes one cluster in place. `names` are what references may point at."""

    def __init__(self, dice: Random, objects: Objects) -> None:
        self._dice, self._objects = dice, objects
        self._names = sorted({_meta(each).get("name", "") for them in objects.values() for each in them}) or ["a"]

    def change(self) -> None:
        """One change, of one object or a few."""
        self._dice.choice(_CHANGES)(self)

    # Whole objects

    def take(self) -> None:
        """An object goes; what names it doesn't know."""
        _, them, place = self._pick()
        del them[place]

    def double(self) -> None:
        """An object is there twice: with another name, with another uid, in another namespace, or the very same."""
        _, them, place = self._pick()
        twin = _copy(them[place])
        field = self._dice.choice(("name", "uid", "namespace", ""))
        if field:
            _meta(twin)[field] = self._dice.choice((*self._names, "twin", "default", "other"))
        them.append(twin)

    def rename(self) -> None:
        """An object takes another one's name, or none."""
        _, them, place = self._pick()
        _meta(them[place])["name"] = self._dice.choice((*self._names, "", "x" * 253))

    def relabel(self) -> None:
        """A label or annotation that somebody reads is taken, given, or spoiled."""
        _, them, place = self._pick()
        meta = _meta(them[place])
        where = meta.setdefault(self._dice.choice(("labels", "annotations")), {})
        if where and self._dice.random() < 0.4:
            key = self._dice.choice(sorted(where))
            if self._dice.random() < 0.5:
                del where[key]
                return
        else:
            key = self._dice.choice(KEYS)
        where[key] = self._text()

    def reorder(self) -> None:
        """Objects come in another order."""
        name = self._dice.choice([name for name, them in self._objects.items() if them])
        self._dice.shuffle(self._objects[name])

    def deepen(self) -> None:
        """A pod group gets a long chain of sub-groups, or a queue one of parents; sometimes it ends where it began."""
        depth, ends = self._dice.choice((3, 30, 63, 64, 65, 200)), self._dice.random() < 0.2
        names = [f"deep-{number}" for number in range(depth)]
        links = list(zip(names, [names[-1] if ends else "", *names], strict=False))
        if self._dice.random() < 0.5 and self._objects.get("podGroups"):
            group = self._dice.choice(self._objects["podGroups"])
            chain: list[Json] = [{"name": name, "minMember": self._dice.choice((0, 1))} for name, _ in links]
            for each, (_, parent) in zip(chain, links, strict=True):
                each.update({"parent": parent} if parent else {})
            group.setdefault("spec", {})["subGroups"] = chain
            for pod in self._objects.get("pods", ())[:3]:
                _meta(pod).setdefault("labels", {})[keys.SUBGROUP_LABEL] = self._dice.choice(names)
        else:
            queues = self._objects.setdefault("queues", [])
            queues += [{"metadata": {"name": n}, "spec": {"parentQueue": p} if p else {}} for n, p in links]
            for group in self._objects.get("podGroups", ())[:2]:
                group.setdefault("spec", {})["queue"] = names[-1]

    def request_bind(self) -> None:
        """A bind request, for pods and nodes that may be elsewhere or nowhere."""
        pods = self._objects.get("pods") or [{}]
        pod = _meta(self._dice.choice(pods))
        spec = {
            "podName": self._dice.choice((pod.get("name", ""), "nobody", self._name())),
            "podUID": self._dice.choice((pod.get("uid", ""), "", "zzz")),
            "selectedNode": self._name(),
            "receivedResourceType": self._dice.choice(("Regular", "Fraction", "odd", "")),
            "receivedGPU": {"count": self._dice.choice((0, 1, 2, -1, 99)), "portion": self._text()},
            "selectedGPUGroups": [self._text() for _ in range(self._dice.randint(0, 3))],
        }
        meta = {"name": f"bind-{self._dice.randint(0, 9)}", "namespace": pod.get("namespace", "default")}
        status = {"phase": self._dice.choice(("", "Pending", "Failed", "Succeeded", "odd")), "failedAttempts": 3}
        self._objects.setdefault("bindRequests", []).append({"metadata": meta, "spec": spec, "status": status})

    def share(self) -> None:
        """A pod asks for a part of a GPU, or runs with one whose group is there, is another's, or isn't known."""
        pods = self._objects.get("pods")
        if not pods:
            return
        pod = self._dice.choice(pods)
        labels, notes = (_meta(pod).setdefault(part, {}) for part in ("labels", "annotations"))
        key = self._dice.choice((keys.GPU_FRACTION_ANNOTATION, keys.GPU_MEMORY_ANNOTATION))
        notes[key] = self._dice.choice(("0.5", "0.25", "4000", "1", self._text()))
        if self._dice.random() < 0.3:
            notes[keys.GPU_FRACTION_DEVICES_ANNOTATION] = self._dice.choice(("2", "3", self._text()))
        for label in [each for each in labels if each.startswith("runai-gpu-group")]:
            del labels[label]
        if self._dice.random() < 0.5:
            labels["runai-gpu-group"] = self._dice.choice(("one", "two", self._text()))
        if self._dice.random() < 0.6:
            pod.setdefault("spec", {})["nodeName"] = self._name()
            pod["status"] = {**(pod.get("status") or {}), "phase": "Running"}

    # Fields of objects

    def spoil(self) -> None:
        """A field somewhere in an object is changed, given or taken."""
        name, them, place = self._pick()
        self._spoil(them[place], LISTS[name].kind, 0)

    def spoil_much(self) -> None:
        for _ in range(self._dice.randint(2, 8)):
            self.spoil()

    def _spoil(self, value: Json, kind: type[msgspec.Struct], depth: int) -> None:
        fields = msgspec.structs.fields(kind)
        present = [each for each in fields if each.encode_name in value]
        # Mostly into what is there: that is where something comes of it.
        field = self._dice.choice(present if present and self._dice.random() < 0.7 else fields)
        name, old = field.encode_name, value.get(field.encode_name)
        roll = self._dice.random()
        below = _struct_of(field.type)
        if old is not None and below is not None and roll < 0.8:
            inside = old if isinstance(old, dict) and below[1] == "one" else None
            if inside is None and old:
                inside = self._dice.choice(list(old.values()) if isinstance(old, dict) else old)
            if isinstance(inside, dict):
                self._spoil(inside, below[0], depth + 1)
                return
        if name in value and roll > 0.93:
            del value[name]
        elif isinstance(old, list) and old and roll > 0.6:
            self._spoil_list(old)
        elif isinstance(old, dict) and old and below is None and roll > 0.4:
            old[self._dice.choice((*sorted(map(str, old)), self._key()))] = self._text()
        else:
            value[name] = self._value(field.type, depth, name)

    def _spoil_list(self, value: list[Any]) -> None:
        match self._dice.randrange(3):
            case 0:
                value.append(_copy(self._dice.choice(value)))
            case 1:
                value.pop(self._dice.randrange(len(value)))
            case 2:
                self._dice.shuffle(value)

    def _value(self, kind: Any, depth: int, name: str = "") -> Any:
        """Anything that can be decoded as the type, or nearly so."""
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is typing.Annotated:
            return self._value(arguments[0], depth, name)
        if origin is typing.Literal:
            return self._dice.choice(arguments)
        if origin in (typing.Union, types.UnionType):
            return self._value(self._dice.choice(arguments), depth, name)
        if origin in (tuple, list, frozenset, set):
            return [self._value(arguments[0], depth + 1, name) for _ in range(self._dice.choice((0, 1, 1, 2, 3)))]
        if origin is not None:  # a mapping
            return {self._key(): self._value(arguments[1], depth + 1) for _ in range(self._dice.choice((0, 1, 2)))}
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self._struct(kind, depth + 1)
        if kind is str:
            return self._name() if "ame" in name or self._dice.random() < 0.3 else self._text()
        if kind is bool:
            return self._dice.random() < 0.5
        if kind is int:
            return self._dice.choice(INTEGERS)
        if kind is float:
            return self._dice.choice(FLOATS)
        return None

    def _struct(self, kind: type[msgspec.Struct], depth: int) -> Json:
        made = {}
        for field in msgspec.structs.fields(kind):
            if field.required or self._dice.random() < (0.7 if depth < _DEEPEST else 0.0):
                made[field.encode_name] = self._value(field.type, depth, field.encode_name)
        return made

    def _pick(self) -> tuple[str, list[Json], int]:
        """Any object: first a list, so that pods aren't all that is ever changed."""
        lists = [name for name, them in self._objects.items() if them]
        if not lists:
            self._objects["pods"] = [{"metadata": {"name": "only"}}]
            lists = ["pods"]
        often = [name for name in ("pods", "podGroups") if name in lists]
        name = self._dice.choice([*lists, *often, *often])
        them = self._objects[name]
        return name, them, self._dice.randrange(len(them))

    def _text(self) -> str:
        return self._dice.choice(TEXTS) if self._dice.random() < 0.8 else self._name()

    def _key(self) -> str:
        return self._dice.choice(KEYS) if self._dice.random() < 0.7 else self._text()

    def _name(self) -> str:
        return self._dice.choice(self._names) if self._dice.random() < 0.9 else "nobody"


_CHANGES: Sequence[Callable[[Mutator], None]] = (
    *(Mutator.spoil,) * 6,
    *(Mutator.spoil_much,) * 2,
    *(Mutator.relabel,) * 4,
    *(Mutator.share,) * 2,
    Mutator.take,
    Mutator.double,
    Mutator.rename,
    Mutator.reorder,
    Mutator.deepen,
    Mutator.request_bind,
)


def _struct_of(kind: Any) -> tuple[type[msgspec.Struct], str] | None:
    """The Struct in a field's type, and whether the field holds one of them or many."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind, "one"
    origin = typing.get_origin(kind)
    many = origin not in (None, typing.Union, types.UnionType, typing.Annotated)
    for each in typing.get_args(kind):
        found = _struct_of(each)
        if found is not None:
            return found[0], "many" if many else found[1]
    return None


def _meta(obj: Json) -> Json:
    found = obj.get("metadata")
    if not isinstance(found, dict):
        found = obj["metadata"] = {}
    return found


def _copy(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))
