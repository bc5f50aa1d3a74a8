"""ClassViews: the class views of a session, made on first use, and what several of them share."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from operator import attrgetter

import numpy as np

from bosket.scheduler.framework.class_view import Asked, ClassView, StaticVerdict, ViewContext
from bosket.scheduler.framework.extension import NodeFilter, NodeScorer, ReasonCodes
from bosket.scheduler.framework.neighbour_view import Base, NeighbourView, ScoreArrays
from bosket.scheduler.model.task import ClassIndex, PodClass

_is_static = attrgetter("static")


class ClassViews:
    """The class views of a session."""

    def __init__(self, context: ViewContext) -> None:
        self._context = context
        self._views: dict[ClassIndex, ClassView] = {}
        self._bases: dict[Hashable, Base] = {}  # by the cache keys of all filters and scorers
        self._arrays = ScoreArrays()
        self._static: dict[Hashable, StaticVerdict] = {}  # by the cache keys of the static filters

    def of(self, pod_class: PodClass) -> ClassView:
        """The view of a class."""
        view = self._views.get(pod_class.index)
        if view is None:
            view = self._views[pod_class.index] = self._make(pod_class)
        return view

    def __iter__(self) -> Iterator[ClassView]:
        return iter(self._views.values())

    def clear(self) -> None:
        """Drops all views; the next question makes them again from the present accounts."""
        self._views.clear()

    def unrestricted(self, pod_class: PodClass) -> bool:
        """Whether no filter objects to any node, so that only free resources matter."""
        filters = [each for each in self._context.extensions.node_filters if each.concerns(pod_class)]
        return all(map(_is_static, filters)) and self._static_verdict(pod_class, filters).is_unrestricted

    def without_base(self, pod_class: PodClass) -> ClassView:
        """A new view of the class that shares nothing with others; tests compare every other view with it."""
        return ClassView(self._context, pod_class, self._asked(pod_class))

    def _make(self, pod_class: PodClass) -> ClassView:
        """Makes the view of a class; with a base if pod affinity or spreading matters for it."""
        context, asked = self._context, self._asked(pod_class)
        others = asked.without_neighbours()
        if len(others.filters) == len(asked.filters) and len(others.scorers) == len(asked.scorers):
            return ClassView(context, pod_class, asked)
        rest: list[NodeFilter | NodeScorer] = [*others.filters, *others.scorers]
        keys = [(each, each.cache_key(pod_class)) for each in rest]
        key = (pod_class.needs, pod_class.share, *keys)
        base = self._bases.get(key)
        if base is None:
            base = self._bases[key] = Base(context, pod_class, others)
        return NeighbourView(context, pod_class, asked, base, self._arrays)

    def _asked(self, pod_class: PodClass) -> Asked:
        """The filters and scorers that are called for the class."""
        extensions = self._context.extensions
        filters = [each for each in extensions.node_filters if each.concerns(pod_class)]
        scorers = [each for each in extensions.node_scores if each.concerns(pod_class)]
        return Asked(filters, scorers, self._static_verdict(pod_class, list(filter(_is_static, filters))))

    def _static_verdict(self, pod_class: PodClass, filters: Sequence[NodeFilter]) -> StaticVerdict:
        """The objections of static filters to all nodes; the first objection to a node counts."""
        keys = tuple([(each, each.cache_key(pod_class)) for each in filters])
        found = self._static.get(keys)
        if found is None:
            codes: ReasonCodes = np.zeros(len(self._context.snapshot.nodes), dtype=np.int32)
            for each in filters:
                codes = np.where(codes == 0, each.codes(pod_class, slice(None)), codes)
            found = self._static[keys] = StaticVerdict(codes, codes == 0, not codes.any())
        return found
