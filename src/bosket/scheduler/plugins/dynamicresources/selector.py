"""Selectors of devices: CEL expressions of device classes and requests, evaluated on the devices of a pool.

A device on which an expression fails (a missing attribute, say) doesn't match; the others are evaluated. An expression
that can't be compiled is reported before anything is placed.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from bosket.api import quantity
from bosket.api.cel import CelError, Expression
from bosket.api.resource_k8s import DeviceAttribute, DeviceSelector
from bosket.scheduler.model.device import Offer, Pool

#: Texts in an expression: some of them name domains of attributes, and a domain that a device lacks is an empty one.
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'')

#: How the language says that a name, or a function, is none.
_UNDEFINED = "Undefined variable or function"

#: Expressions that may look at attributes without naming them.
_ITERATES = re.compile(r"\b(?:all|exists|exists_one|map|filter|size|in)\b|attributes\s*[=!]=|capacity\s*[=!]=")
_WORD = re.compile(r"\w+")
#: As many answers are remembered.
MOST_ANSWERS = 20_000
_answers: dict[tuple[str, str, bool, str, str], bool] = {}

Selectors = tuple[str, ...]  #: expressions, all of which must hold


class UnusableSelector(ValueError):
    """A selector that can't be understood: says which one, of the object's field, and why."""


def expressions(selectors: tuple[DeviceSelector, ...], where: str) -> Selectors:
    """Raises UnusableSelector. `where`: the object and field that the selectors are in."""
    found = []
    for index, each in enumerate(selectors):
        if each.cel is None:
            raise UnusableSelector(f"{where}[{index}] has no cel expression")
        problem = _problem(each.cel.expression)
        if problem:
            raise UnusableSelector(f"{where}[{index}].cel.expression: {problem}")
        found.append(each.cel.expression)
    return tuple(found)


def matching(pool: Pool, selectors: Selectors) -> tuple[bool, ...]:
    """By offer of the pool: whether all selectors hold."""
    found = pool.matches.get(selectors)
    if found is None:
        found = pool.matches[selectors] = tuple(_matches(offer, selectors) for offer in pool.offers)
    return found


def _matches(offer: Offer, selectors: Selectors) -> bool:
    return all(_holds(offer, source) for source in selectors)


def _holds(offer: Offer, source: str) -> bool:
    """Devices that look alike to the expression get one answer: most clusters have thousands of them."""
    words, key = _words(source), None
    if words is not None:
        device = offer.device
        seen = [(name, value_of(each)) for name, each in device.attributes.items() if name.rpartition("/")[2] in words]
        sizes = [(name, each.value) for name, each in device.capacity.items() if name.rpartition("/")[2] in words]
        key = (source, offer.id.driver, offer.is_shared, repr(sorted(seen)), repr(sorted(sizes)))
        known = _answers.get(key)
        if known is not None:
            return known
    try:
        answer = _compiled(source).evaluate({"device": _as_cel_sees(offer, _texts(source))}) is True
    except CelError:
        answer = False
    if key is not None:
        if len(_answers) >= MOST_ANSWERS:
            _answers.clear()
        _answers[key] = answer
    return answer


@lru_cache(maxsize=1024)
def _problem(source: str) -> str:
    try:
        compiled = _compiled(source)
    except CelError as error:
        return str(error)
    nothing: dict[str, Any] = {domain: {} for domain in _texts(source)}
    device = {"driver": "", "allowMultipleAllocations": False, "attributes": nothing, "capacity": nothing}
    try:
        compiled.evaluate({"device": device})
    except CelError as error:
        # Attributes may be missing on one device and there on another; names and functions can't.
        return str(error) if str(error).startswith(_UNDEFINED) else ""
    return ""


@lru_cache(maxsize=1024)
def _compiled(source: str) -> Expression:
    return Expression(source)


@lru_cache(maxsize=1024)
def _words(source: str) -> frozenset[str] | None:
    """All words of an expression, among them the names of attributes that it looks at; None where these aren't all."""
    if _ITERATES.search(source) or "cel.bind" in source:
        return None
    return frozenset(_WORD.findall(source))


@lru_cache(maxsize=1024)
def _texts(source: str) -> frozenset[str]:
    return frozenset(double or single for double, single in _TEXT.findall(source))


def _as_cel_sees(offer: Offer, domains: frozenset[str]) -> dict[str, Any]:
    attributes: dict[str, dict[str, Any]] = {domain: {} for domain in domains}
    capacity: dict[str, dict[str, Any]] = {domain: {} for domain in domains}
    driver, device = offer.id.driver, offer.device
    for name, attribute in device.attributes.items():
        domain, own_name = _qualified(name, driver)
        attributes.setdefault(domain, {})[own_name] = value_of(attribute)
    for name, amount in device.capacity.items():
        domain, own_name = _qualified(name, driver)
        capacity.setdefault(domain, {})[own_name] = quantity.canonical(amount.value)
    return {
        "driver": driver,
        "allowMultipleAllocations": offer.is_shared,
        "attributes": attributes,
        "capacity": capacity,
    }


def attribute_of(offer: Offer, name: str) -> object:
    """The attribute that a constraint names, domain and all; None when the device has none."""
    attributes = offer.device.attributes
    found = attributes.get(name)
    if found is None:
        domain, slash, own_name = name.partition("/")
        found = attributes.get(own_name) if slash and domain == offer.id.driver else None
    value = value_of(found) if found is not None else None
    # True equals 1, in Python: the type is part of the value.
    return (type(value).__name__, tuple(value) if isinstance(value, list) else value) if value is not None else None


def value_of(attribute: DeviceAttribute) -> Any:
    """The one value that the attribute has."""
    for value in (attribute.string, attribute.int_, attribute.bool_, attribute.version):
        if value is not None:
            return value
    for values in (attribute.strings, attribute.ints, attribute.bools, attribute.versions):
        if values:
            return list(values)
    return None


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, own_name = name.partition("/")
    return (domain, own_name) if slash else (driver, name)
