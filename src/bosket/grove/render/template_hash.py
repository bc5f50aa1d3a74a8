"""Template hashes: labels of PodCliques and pods, and the generation of a set.

They cover what pods are made from (a clique's labels, annotations and pod spec, with the set's priority class), and
nothing else: another number of replicas is no other template. They are Grove's, to the bit: an operator that takes
over from Grove, or Grove from it, finds every template unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import replace

from bosket.api.core import PodTemplateSpec
from bosket.api.grove import PodClique, PodCliqueSet, PodCliqueTemplateSpec
from bosket.api.object import ObjectMeta
from bosket.grove.render.go_dump import dumped_template
from bosket.grove.render.template import template_of

#: Digits as letters, as Kubernetes writes hashes into names: no vowels, so that none spells a word.
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3
_MASK: Final = (1 << 64) - 1


#: Hashes of templates that were asked for lately, by identity: each is kept with its template, which never changes.
_recent: dict[tuple[int, str], tuple[PodCliqueTemplateSpec, str]] = {}
_MOST_RECENT: Final = 4096


def template_hash(owner: PodCliqueSet, template: PodCliqueTemplateSpec) -> str:
    """The hash of one clique's template."""
    # Every PodClique is asked about at every look at its set: even to write the template down would cost too much.
    key = id(template), owner.spec.template.priorityClassName
    found = _recent.get(key)
    if found is None or found[0] is not template:
        if len(_recent) >= _MOST_RECENT:
            _recent.clear()
        found = _recent[key] = template, _hash_of((_hashed(owner, template),))
    return found[1]


def generation_hash(owner: PodCliqueSet) -> str:
    """The hash of all cliques' templates, in their order; of a set with one clique, that clique's."""
    return _hash_of(_hashed(owner, each) for each in owner.spec.template.cliques)


def expected_hash(owner: PodCliqueSet, clique: PodClique) -> str:
    """The hash that a PodClique's template has now; empty if the set has no such clique."""
    template = template_of(owner, clique)
    return template_hash(owner, template) if template is not None else ""


def _hashed(owner: PodCliqueSet, template: PodCliqueTemplateSpec) -> bytes:
    spec = replace(template.spec.podSpec, priorityClassName=owner.spec.template.priorityClassName)
    meta = ObjectMeta(labels=template.labels, annotations=template.annotations)
    return msgspec.json.encode(PodTemplateSpec(metadata=meta, spec=spec))


def _hash_of(templates: Iterable[bytes]) -> str:
    return _cached_hash(tuple(templates))


@lru_cache(maxsize=1024)  # asked again for every PodClique at every look at it
def _cached_hash(templates: tuple[bytes, ...]) -> str:
    value = _FNV_OFFSET
    for each in templates:
        for byte in dumped_template(msgspec.json.decode(each)).encode():
            value = (value ^ byte) * _FNV_PRIME & _MASK
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(value))
