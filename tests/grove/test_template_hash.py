"""Templates have the hashes that Grove gives them, so that it and Bosket can take over from each other."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bosket.api.core import PodTemplateSpec
from bosket.api.grove import PodCliqueSpec, PodCliqueTemplateSpec
from bosket.grove.render.template_hash import generation_hash, template_hash
from tests.grove.sets import clique, clique_set


class Recorded(msgspec.Struct):
    """A pod template, and the hash that Go's code gives it."""

    template: PodTemplateSpec
    hash: str


RECORDED = [
    msgspec.json.decode(line, type=Recorded)
    for line in Path(__file__).with_name("go_hashes.jsonl").read_bytes().splitlines()
]


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda each: each.hash)
def test_a_template_has_the_hash_that_go_gives_it(recorded: Recorded) -> None:
    meta, spec = recorded.template.metadata, recorded.template.spec
    template = PodCliqueTemplateSpec(
        name="a",
        labels=meta.labels,
        annotations=meta.annotations,
        spec=PodCliqueSpec(roleName="r", replicas=1, podSpec=spec),
    )
    owner = clique_set("s", template, priorityClassName=spec.priorityClassName)
    assert template_hash(owner, template) == recorded.hash


def test_a_set_with_one_clique_has_that_cliques_hash() -> None:
    only = clique("a")
    owner = clique_set("s", only)
    assert generation_hash(owner) == template_hash(owner, only)


def test_another_number_of_replicas_is_no_other_template() -> None:
    assert generation_hash(clique_set("s", clique("a", 1))) == generation_hash(clique_set("s", clique("a", 4, 2)))


def test_another_priority_class_of_the_set_is_another_template() -> None:
    plain, urgent = clique_set("s", clique("a")), clique_set("s", clique("a"), priorityClassName="urgent")
    assert generation_hash(plain) != generation_hash(urgent)
