"""PodMixes: which shapes of GPU pods arrive, the latest counting most.

A pod counts once, when it is first seen, whether or not it is placed and however long it stays. A pod that was created
`HALF_LIFE_SECONDS` before another counts half as much. Only proportions matter, and time alone doesn't change these: so
the mix stays the same object while no pod arrives, and so does the snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Final

from bosket.scheduler.model.pod_mix import MOST_SHAPES, NO_MIX, PodMix, PodShape, shape_of
from bosket.scheduler.model.task import PodClass

HALF_LIFE_SECONDS: Final = 7 * 24 * 3600.0
#: The number of shapes that are kept; the lightest ones are dropped.
MOST_COUNTED: Final = 16 * MOST_SHAPES
#: Bound on the exponent of weights: beyond it a weight is negligible, or would overflow.
_MOST_HALVINGS: Final = 500.0


class PodMixes:
    """Counts pods by shape."""

    def __init__(self) -> None:
        self._came: dict[PodClass, list[float]] = {}  # since the last mix: by class, when pods were created
        self._shapes: dict[int, Hashable] = {}  # by class: the key of its shape, None without one
        self._weights: dict[Hashable, float] = {}  # by the shape's key; as of `_since`
        self._known: dict[Hashable, PodShape] = {}
        self._since: float | None = None  # epoch seconds; a pod that was created then counts 1
        self._mix = NO_MIX

    def saw(self, pod_class: PodClass, created: float) -> None:
        """Counts a new pod."""
        if pod_class.wants_gpu:
            self._came.setdefault(pod_class, []).append(created)

    def restore(self, mix: PodMix, now: float) -> None:
        """Restores a mix as of `now`; it includes the pods seen before."""
        self._came.clear()
        self._known = {shape.key: shape for shape in mix.shapes}
        self._weights = {shape.key: part for shape, part in zip(mix.shapes, mix.parts, strict=True)}
        self._since, self._mix = now, mix

    def mix(self, now: float) -> PodMix:
        """The mix as of `now`; the very same object while no pod arrived."""
        if self._came:
            if self._since is None:
                self._since = min(now, *(min(created) for created in self._came.values()))
            for pod_class, created in self._came.items():
                self._count(pod_class, [min(each, now) for each in created])
            self._came.clear()
            if len(self._weights) > MOST_COUNTED:
                self._forget_rare()
            self._mix = PodMix.of([(self._known[key], weight) for key, weight in self._weights.items()])
        return self._mix

    def _count(self, pod_class: PodClass, created: list[float]) -> None:
        key = self._shape(pod_class)
        if key is None:
            return
        assert self._since is not None
        if (max(created) - self._since) / HALF_LIFE_SECONDS > _MOST_HALVINGS:
            self._move_to(max(created))
        since = self._since
        # Sorted, so that the float sum doesn't depend on the order in which pods were seen.
        halvings = [max((each - since) / HALF_LIFE_SECONDS, -_MOST_HALVINGS) for each in sorted(created)]
        self._weights[key] = self._weights.get(key, 0.0) + sum(map(math.exp2, halvings))

    def _move_to(self, when: float) -> None:
        """Rescales weights to another moment before they overflow."""
        assert self._since is not None
        factor = math.exp2(max((self._since - when) / HALF_LIFE_SECONDS, -2 * _MOST_HALVINGS))
        self._weights = {key: weight * factor for key, weight in self._weights.items()}
        self._since = when

    def _shape(self, pod_class: PodClass) -> Hashable:
        index = pod_class.index
        if index in self._shapes and ((key := self._shapes[index]) is None or key in self._known):
            return self._shapes[index]
        if len(self._shapes) >= MOST_COUNTED:  # numbers of classes are never used twice
            self._shapes.clear()
        shape = shape_of(pod_class)
        key = self._shapes[index] = shape.key if shape is not None else None
        if shape is not None:
            self._known[key] = shape
        return key

    def _forget_rare(self) -> None:
        kept = sorted(self._weights, key=self._weights.__getitem__, reverse=True)[: MOST_COUNTED // 2]
        self._weights = {key: self._weights[key] for key in kept}
        self._known = {key: self._known[key] for key in kept}
