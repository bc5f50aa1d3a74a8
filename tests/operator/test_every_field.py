"""Every field of Config and SchedulingShard changes what is deployed, or a condition says that it has no effect."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from bosket.api.core import Affinity, PodSecurityContext, ResourceRequirements, SecurityContext, Toleration
from bosket.api.kai.config import Config, ConfigSpec
from bosket.api.kai.operand import EvictionRequirement, VPAContainerPolicy
from bosket.api.kai.shard import SchedulingShard, SchedulingShardSpec
from bosket.services.operator import shard
from bosket.services.operator.check import config_problems
from bosket.services.operator.common import Common
from bosket.services.operator.monitoring import probe_settings
from bosket.services.operator.options import Options
from bosket.services.operator.plan import plan
from bosket.services.operator.without_effect import config_notes, shard_notes

#: Values that differ from the defaults, by type; and by name, where a type has values that mean nothing.
BY_TYPE: dict[Any, list[Any]] = {
    bool: [True, False],
    int: [7],
    float: [0.25],
    str: ["sample"],
    Affinity: [{"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}],
    ResourceRequirements: [{"requests": {"cpu": "7"}}],
    SecurityContext: [{"runAsUser": 7}],
    PodSecurityContext: [{"runAsUser": 7}],
    dict[str, str]: [{"sample": "value"}],
    dict[str, int]: [{"allocate": 7}],
    tuple[str, ...]: [["sample"]],
    tuple[Toleration, ...]: [[{"key": "sample", "operator": "Exists"}]],
    tuple[EvictionRequirement, ...]: [[{"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}]],
    tuple[VPAContainerPolicy, ...]: [[{"containerName": "sample"}]],
}
BY_NAME: dict[str, list[Any]] = {
    "pollInterval": ["7s"],
    "driftResyncInterval": ["7s"],
    "args": [{"log-level": "debug"}],
    "maxActionSearchDuration": [{"default": "7s"}],
    "maxGeneratorSearchDuration": [{"default": "7s"}],
}
#: A plugin or an action whose settings are tried, by the map in which it stands.
KEYS = {"plugins": "elastic", "actions": "preempt"}
#: What must be so for others to matter.
CONFIG_BASE: dict[str, Any] = {
    "prometheus": {"enabled": True},
    "numaPlacementExporter": {"service": {"enabled": True}},
}
USAGE = {"clientType": "prometheus", "connectionString": "http://there"}

Path = tuple[str, ...]


def plain_type(annotation: Any) -> Any:
    """Without Annotated and None; of several, such as a quantity has, the first."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        annotation, *_ = [plain_type(each) for each in get_args(annotation) if each is not type(None)]
    return annotation


def fields(kind: Any, path: Path = ()) -> Iterator[tuple[Path, list[Any]]]:
    """Each field without fields of its own, with values to try."""
    hints = get_type_hints(kind, include_extras=True)
    for each in msgspec.structs.fields(kind):
        type_, where = plain_type(hints[each.name]), (*path, each.encode_name)
        arguments = get_args(type_)
        if each.name in BY_NAME and not (isinstance(type_, type) and issubclass(type_, msgspec.Struct)):
            yield where, BY_NAME[each.name]
        elif type_ in BY_TYPE:
            yield where, BY_TYPE[type_]
        elif get_origin(type_) is Literal:
            yield where, [value for value in arguments if value]
        elif get_origin(type_) is dict:
            yield from fields(arguments[1], (*where, KEYS[each.name]))
        else:
            assert issubclass(type_, msgspec.Struct), f"{where}: give this test a value of {type_}"
            yield from fields(type_, where)


def with_value(base: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    first, *rest = path
    inner = with_value(base.get(first, {}), tuple(rest), value) if rest else value
    return {**base, first: inner}


@cache
def switches() -> frozenset[Path]:
    return frozenset(path for path, _ in fields(ConfigSpec) if path[-1] == "enabled")


def switched_on(base: dict[str, Any], path: Path) -> dict[str, Any]:
    """The base with all switches on that stand beside a part of the path."""
    for depth in range(1, len(path)):
        if (*path[:depth], "enabled") in switches():
            base = with_value(base, (*path[:depth], "enabled"), True)
    return base


def outcome_of_config(spec: dict[str, Any]) -> tuple[Any, list[str]]:
    common = Common(Config(spec=msgspec.convert(spec, ConfigSpec)), Options())
    problems = config_problems(common.config.spec, common.namespace)
    own = shard.objects(SchedulingShard(), common, None)
    return (plan(common, []), own, probe_settings(common), problems), config_notes(common)


def outcome_of_shard(spec: dict[str, Any]) -> tuple[Any, list[str]]:
    common, own = Common(Config(), Options()), SchedulingShard(spec=msgspec.convert(spec, SchedulingShardSpec))
    return shard.objects(own, common, None), shard_notes(own, common)


def is_named(path: Path, notes: list[str]) -> bool:
    told = [note.partition(":")[0] for note in notes]
    return any(f"{'.'.join(('spec', *path))}.".startswith(f"{each}.") for each in told)


def is_told_the_truth(before: Any, after: list[tuple[Any, list[str]]], path: Path) -> bool:
    """Whether one of the values has an effect, or all of them are named, and not both."""
    has_effect = any(each != before for each, _ in after)
    return has_effect != all(is_named(path, notes) for _, notes in after)


def test_every_field_of_a_config_has_an_effect_or_is_named() -> None:
    offending = []
    for path, values in fields(ConfigSpec):
        base = switched_on(CONFIG_BASE, path)
        if "externalPrometheusHealthProbe" in path:
            base = with_value(base, ("prometheus", "externalPrometheusUrl"), "http://there")
        after = [outcome_of_config(with_value(base, path, value)) for value in values]
        if not is_told_the_truth(outcome_of_config(base)[0], after, path):
            offending.append(".".join(path))
    assert offending == []


def test_every_field_of_a_shard_has_an_effect_or_is_named() -> None:
    offending = []
    for path, values in fields(SchedulingShardSpec):
        base = {"usageDBConfig": USAGE} if path[0] == "usageDBConfig" else {}
        after = [outcome_of_shard(with_value(base, path, value)) for value in values]
        if not is_told_the_truth(outcome_of_shard(base)[0], after, path):
            offending.append(".".join(path))
    assert offending == []


def test_the_fields_are_all_there() -> None:
    """The two tests above would pass on nothing."""
    assert len(list(fields(ConfigSpec))) > 200
    assert len(list(fields(SchedulingShardSpec))) > 30


def test_values_that_are_set_aside_are_named() -> None:
    _, notes = outcome_of_config({"podGrouper": {"service": {"image": {"name": "podgrouper", "tag": "v1"}}}})
    assert notes == [
        "spec.podGrouper.service.image: has no effect: podgrouper is KAI's, which doesn't run Bosket; "
        f"{Options().image} is deployed"
    ]
    budget = {"service": {"podDisruptionBudget": {"enabled": True}}, "replicas": 1}
    _, notes = outcome_of_config({"binder": budget})
    assert [note.partition(":")[0] for note in notes] == ["spec.binder.service.podDisruptionBudget"]
    _, notes = outcome_of_shard({"plugins": {"theirs": {"enabled": True}}, "args": {"v": "5"}})
    assert [note.partition(":")[0] for note in notes] == ["spec.args.v", "spec.plugins.theirs"]


def test_a_shard_that_never_evicts_says_so() -> None:
    off = {"sg-nodelocalgreedy": {"enabled": False}, "sg-multinodegang": {"enabled": False}}
    _, notes = outcome_of_shard({"plugins": off | {"numa": {"enabled": True}}})
    assert notes == [
        "spec.plugins: without sg-multinodegang or sg-nodelocalgreedy no victims are found: "
        "consolidation, reclaim, preempt never evict"
    ]
    never = {name: {"enabled": False} for name in ("consolidation", "reclaim", "preempt")}
    assert outcome_of_shard({"plugins": off, "actions": never})[1] == []
    assert outcome_of_shard({"plugins": dict(list(off.items())[:1])})[1] == []
    _, notes = outcome_of_shard({"plugins": off | {"theirs": {"enabled": True}}})  # which may generate scenarios
    assert [note.partition(":")[0] for note in notes] == ["spec.plugins.theirs"]


def test_defaults_are_nothing_to_speak_of() -> None:
    assert outcome_of_config({})[1] == outcome_of_shard({})[1] == []
