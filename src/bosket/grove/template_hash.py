"""Hashes by which a template is told from another: labels of PodCliques and pods, and a set's generation.

They cover what pods are made from (a clique's labels, annotations and pod spec, with the set's priority class), and
nothing else: another number of replicas is no other template.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from bosket.api.grove import PodClique, PodCliqueSet, PodCliqueTemplateSpec
from bosket.grove.template import template_of

#: No vowels and nothing that looks like one: a hash never spells a word.
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH: Final = 20


def template_hash(owner: PodCliqueSet, template: PodCliqueTemplateSpec) -> str:
    """The hash of one clique's template."""
    return _hash_of([_hashed(owner, template)])


def generation_hash(owner: PodCliqueSet) -> str:
    """The hash of all cliques' templates, in their order; of a set with one clique, that clique's."""
    return _hash_of(_hashed(owner, each) for each in owner.spec.template.cliques)


def expected_hash(owner: PodCliqueSet, clique: PodClique) -> str:
    """The hash that a PodClique's template has now; empty if the set has no such clique."""
    template = template_of(owner, clique)
    return template_hash(owner, template) if template is not None else ""


def _hashed(owner: PodCliqueSet, template: PodCliqueTemplateSpec) -> Any:
    spec = replace(template.spec.podSpec, priorityClassName=owner.spec.template.priorityClassName)
    return [template.labels, template.annotations, spec]


def _hash_of(templates: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for each in templates:
        digest.update(msgspec.json.encode(each, order="sorted"))
    number = int.from_bytes(digest.digest()[:12])
    letters = []
    for _ in range(_LENGTH):
        number, rest = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[rest])
    return "".join(letters)
