"""A workload and one of its pods, as a Karta sees them: which component the pod is of, and how many there are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bosket.services.podgrouper.karta import Component, Karta
from bosket.services.podgrouper.owner import GroupingError
from bosket.services.podgrouper.program import Answer, Answers


@dataclass(frozen=True)
class Reading:
    """A workload and one of its pods, as a Karta sees them."""

    karta: Karta
    answers: Answers

    def of_pod(self, program: str) -> list[Any]:
        """All results of a program about the pod."""
        return self._results(self.answers.of_pod[program])

    def _of_workload(self, program: str) -> list[Any]:
        return self._results(self.answers.of_workload[program])

    def _results(self, answer: Answer) -> list[Any]:
        if answer.outcome != "results":
            raise GroupingError(f"Karta {self.karta.name}: {answer.error}")
        return list(answer.results)

    def is_of(self, component: Component) -> bool:
        """Whether the pod is one of the component's own."""
        selector = component.pod_selector.component_type_selector if component.pod_selector else None
        if selector is None:
            return False
        results = self.of_pod(selector.program)
        return (
            any(each is not None for each in results)
            if selector.value is None
            else any(each is True for each in results)
        )

    def is_below(self, component: Component) -> bool:
        """Whether the pod is one of the component's, or of a component that it owns."""
        return self.is_of(component) or any(self.is_below(child) for child in self.karta.children(component.name))

    def word(self, expression: str) -> str:
        """The one value that a path leads to, in the pod."""
        results = self.of_pod(expression)
        if len(results) != 1 or results[0] in (None, ""):
            raise GroupingError(f'Karta {self.karta.name}: "{expression}" gives {results}, one value is expected')
        value = results[0]
        return value if isinstance(value, str) else json.dumps(value)

    def instances(self, component: Component) -> list[str]:
        """The names of a component's instances; one without a name where it has no such thing."""
        if component.instance_id_path is None:
            return [""]
        found = self._of_workload(component.instance_id_path)
        if not all(isinstance(each, str) and each for each in found):
            raise GroupingError(f'Karta {self.karta.name}: "{component.instance_id_path}" gives {found}, not names')
        return found

    def pods_below(self, component: Component, instance: str | None = None) -> int:
        """How many pods a component has, with those of all that it owns: the least that it says it may have."""
        if any(each.scale_definition is not None for each in self.karta.components.values()):
            return self._by_scale(component, instance)
        return self._by_leaves(component, instance)

    def _by_scale(self, component: Component, instance: str | None) -> int:
        scales = self._scales(component)
        if instance is None:
            own = sum(scales.values())
        elif instance in scales:
            own = scales[instance]
        else:
            raise self._unknown(component, instance)
        below = sum(self._by_scale(child, None) for child in self.karta.children(component.name))
        # Who says nothing about numbers leaves them to those above or below.
        return own * below if own and below else own or below

    def _by_leaves(self, component: Component, instance: str | None) -> int:
        if not component.has_pods:
            return sum(self._by_leaves(child, None) for child in self.karta.children(component.name))
        if component.instance_id_path is None:
            return 1
        instances = self.instances(component)
        if instance is None:
            return len(instances)
        if instance not in instances:
            raise self._unknown(component, instance)
        return 1

    def _scales(self, component: Component) -> dict[str, int]:
        """The least number of replicas of each instance."""
        scale = component.scale_definition
        if scale is None:
            return {}
        paths = (scale.min_replicas_path, scale.replicas_path, scale.max_replicas_path)
        least, wanted, most = ([] if path is None else self._numbers(path) for path in paths)
        count, instances = max(len(least), len(wanted), len(most)), self.instances(component)
        if count != len(instances):
            raise GroupingError(
                f'Karta {self.karta.name}: component "{component.name}" has {len(instances)} instances, '
                f"but {count} numbers of replicas"
            )
        return {
            instance: _positive(least, index) or _positive(wanted, index) for index, instance in enumerate(instances)
        }

    def _numbers(self, path: str) -> list[int | None]:
        found = self._of_workload(path)
        if not all(each is None or (isinstance(each, int) and not isinstance(each, bool)) for each in found):
            raise GroupingError(f'Karta {self.karta.name}: "{path}" gives {found}, not whole numbers')
        return found

    def _unknown(self, component: Component, instance: str) -> GroupingError:
        return GroupingError(
            f'Karta {self.karta.name}: the pod belongs to "{instance}", '
            f'and component "{component.name}" has no such instance'
        )


def _positive(numbers: Sequence[int | None], index: int) -> int:
    return max(0, numbers[index] or 0) if index < len(numbers) else 0
