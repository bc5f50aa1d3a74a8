"""A change that might start a job, before anybody knows whether it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bosket.scheduler.answers.change import ObjectPatch
from bosket.scheduler.answers.explanation import Actor

Patches = tuple[ObjectPatch, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change in steps of growing size, or of a single size."""

    actor: Actor
    kind: str
    patch: Callable[[int], Patches]  #: by size, from 1 on
    sentence: Callable[[int], str]
    most: int = 1  #: the largest size
    is_number: bool = False  #: whether sizes are steps of a number, so that the next smaller one means something
    #: whether larger sizes cost more to try, and a small one is likely to do
    from_below: bool = False
    in_template: bool = False  #: whether it is about the pods, which are made anew by a template
    has_commands: bool = True  #: whether kubectl can make the change as it is

    @staticmethod
    def single(actor: Actor, kind: str, sentence: str, *patches: ObjectPatch, in_template: bool = False) -> Candidate:
        """A change of one size."""
        return Candidate(
            actor,
            kind,
            lambda _: patches,
            lambda _: sentence,
            in_template=in_template,
            has_commands=not in_template,
        )
