"""Metadata: what the server writes into it, and what it lets clients write."""

from __future__ import annotations

import random
import uuid
from typing import Any

from bosket.api.field_error import FieldError, forbidden_field, invalid_value, required, too_long
from bosket.api.name_rules import label_key_error, label_value_error
from bosket.apiserver.objects.kind import Version
from bosket.apiserver.status import WrongType, describe
from bosket.apiserver.store.entry import Doc

#: No vowels and nothing that looks like something else: generated names spell no words.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_MAX_BASE_LENGTH = 63 - _SUFFIX_LENGTH
_MAX_ANNOTATIONS_BYTES = 256 * 1024

_STRINGS = ("name", "generateName", "namespace", "uid", "resourceVersion", "selfLink")
_STRING_MAPS = ("labels", "annotations")

_random = random.SystemRandom()


def generate_name(base: str) -> str:
    """A name that begins with `base`, or with as much of it as leaves room for the suffix."""
    return base[:_MAX_BASE_LENGTH] + "".join(_random.choices(_ALPHABET, k=_SUFFIX_LENGTH))


# types: metadata is the same for all kinds, so it's checked here for all of them


def check_metadata_types(metadata: dict[str, Any]) -> None:
    """Drop nulls and refuse values of a wrong type."""
    for key in [key for key, value in metadata.items() if value is None]:
        del metadata[key]
    for key in _STRINGS:
        if key in metadata and not isinstance(metadata[key], str):
            raise WrongType(f"metadata.{key} must be a string, not {describe(metadata[key])}")
    for key in _STRING_MAPS:
        entries = metadata.get(key)
        if entries is None:
            continue
        if not isinstance(entries, dict):
            raise WrongType(f"metadata.{key} must be an object of strings, not {describe(entries)}")
        for name, value in entries.items():
            if value is None:
                entries[name] = ""
            elif not isinstance(value, str):
                raise WrongType(f"metadata.{key}.{name} must be a string, not {describe(value)}")
    finalizers = metadata.get("finalizers")
    if finalizers is not None and (
        not isinstance(finalizers, list) or not all(isinstance(each, str) for each in finalizers)
    ):
        raise WrongType("metadata.finalizers must be a list of strings")
    owners = metadata.get("ownerReferences")
    if owners is not None and (not isinstance(owners, list) or not all(isinstance(each, dict) for each in owners)):
        raise WrongType("metadata.ownerReferences must be a list of objects")
    for index, owner in enumerate(owners or ()):
        for key in ("apiVersion", "kind", "name", "uid"):
            if not isinstance(owner.get(key, ""), str):
                raise WrongType(f"metadata.ownerReferences[{index}].{key} must be a string, not {describe(owner[key])}")
    for key in ("labels", "annotations", "finalizers", "ownerReferences", "generateName", "selfLink"):
        if not metadata.get(key, True):
            del metadata[key]


# what the server writes


def begin(metadata: dict[str, Any], *, now: str, generation: bool) -> None:
    """Metadata of a new object: identity and birth are the server's to give."""
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "selfLink", "generation"):
        metadata.pop(key, None)
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = now
    if generation:
        metadata["generation"] = 1


_SERVER_OWNED = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generateName",
)


def carry_over(new: dict[str, Any], old: dict[str, Any]) -> None:
    """On a change, what the server wrote stays as it was."""
    for key in _SERVER_OWNED:
        put_back(new, old, key)
    new.pop("selfLink", None)


def put_back(new: Doc, old: Doc, key: str) -> None:
    """Whatever was written to a key, it is as it was."""
    if key in old:
        new[key] = old[key]
    else:
        new.pop(key, None)


def shown_name(doc: Doc) -> str:
    """As refusals name an object: one that has no name yet by the beginning of it."""
    metadata = doc["metadata"]
    return str(metadata.get("name") or metadata.get("generateName") or "")


# rules


def validate_metadata(version: Version, metadata: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
    """The rules that hold for every kind's metadata."""
    errors: list[FieldError] = []
    if old is None:
        name = metadata["name"]
        problem = version.strategy.validate_name(name)
        if problem:
            errors.append(invalid_value("metadata.name", name, problem))
    elif metadata.get("finalizers") and old.get("deletionTimestamp"):
        added = sorted(set(metadata["finalizers"]) - set(old.get("finalizers", ())))
        if added:
            listed = ", ".join(f'"{each}"' for each in added)
            errors.append(
                forbidden_field(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, "
                    f"found new finalizers []string{{{listed}}}",
                )
            )
    for key, value in metadata.get("labels", _NOTHING).items():
        if problem := label_key_error(key):
            errors.append(invalid_value("metadata.labels", key, problem))
        if problem := label_value_error(value):
            errors.append(invalid_value("metadata.labels", value, problem))
    if annotations := metadata.get("annotations"):
        size = 0
        for key, value in annotations.items():
            if problem := label_key_error(key.lower()):
                errors.append(invalid_value("metadata.annotations", key, problem))
            size += len(key) + len(value)
        if size > _MAX_ANNOTATIONS_BYTES:
            errors.append(too_long("metadata.annotations", _MAX_ANNOTATIONS_BYTES))
    for each in metadata.get("finalizers", ()):
        if problem := label_key_error(each):
            errors.append(invalid_value("metadata.finalizers", each, problem))
    if owners := metadata.get("ownerReferences"):
        errors += _validate_owners(owners)
    return errors


_NOTHING: dict[str, str] = {}


def _validate_owners(owners: list[Doc]) -> list[FieldError]:
    errors = []
    for index, owner in enumerate(owners):
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                errors.append(required(f"metadata.ownerReferences[{index}].{key}", "must not be empty"))
    controllers = [owner for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        names = " and ".join(f"{owner.get('kind')} {owner.get('name')}" for owner in controllers)
        errors.append(
            invalid_value(
                "metadata.ownerReferences",
                [owner.get("name") for owner in controllers],
                f'Only one reference can have Controller set to true. Found "true" in references for {names}',
            )
        )
    return errors
