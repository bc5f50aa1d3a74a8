"""What a plugin of pod admission is: something that refuses pods, or completes them, or both.

Plugins are asked in order (`admission.pod`), and only about pods of our scheduler. They know nothing but the pod: no
cluster, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from bosket.api.core import Pod
from bosket.runtime.webhook.verdict import Refusal


class PodPlugin(Protocol):
    """One concern of pod admission."""

    @property
    def name(self) -> str: ...

    def validate(self, pod: Pod, /) -> Iterable[Refusal]:
        """What is wrong with the pod."""
        ...

    def mutate(self, pod: Pod, /) -> Pod:
        """The pod completed; asked only about pods that nobody refuses, and does nothing the second time."""
        ...
