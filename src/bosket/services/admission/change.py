"""Changed copies of pods: a container replaced, a variable set. Used by admission plugins."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from bosket.api.core import Container, EnvVar, Pod


@dataclass(frozen=True, slots=True)
class ContainerPlace:
    """Which container of a pod."""

    index: int
    is_init: bool = False

    def of(self, pod: Pod) -> Container:
        return (pod.spec.initContainers if self.is_init else pod.spec.containers)[self.index]

    @property
    def field(self) -> str:
        """The path to it."""
        return f"spec.{'initContainers' if self.is_init else 'containers'}[{self.index}]"


@dataclass(frozen=True, slots=True)
class PlacedContainer:
    """A container and where it stands."""

    place: ContainerPlace
    container: Container


def containers_of(pod: Pod) -> list[PlacedContainer]:
    """Those that run first come first."""
    places = [ContainerPlace(index, is_init=True) for index in range(len(pod.spec.initContainers))]
    places += [ContainerPlace(index) for index in range(len(pod.spec.containers))]
    return [PlacedContainer(place, place.of(pod)) for place in places]


def with_container(pod: Pod, place: ContainerPlace, container: Container) -> Pod:
    """The pod with this container in that place."""
    former = pod.spec.initContainers if place.is_init else pod.spec.containers
    containers = (*former[: place.index], container, *former[place.index + 1 :])
    spec = replace(pod.spec, initContainers=containers) if place.is_init else replace(pod.spec, containers=containers)
    return replace(pod, spec=spec)


def with_variable(container: Container, variable: EnvVar) -> Container:
    """The container with this variable, and no other of its name. One that is there already stays where it is."""
    same_name = [each for each in container.env if each.name == variable.name]
    if same_name == [variable]:
        return container
    others = tuple(each for each in container.env if each.name != variable.name)
    return replace(container, env=(*others, variable))


def with_annotation(pod: Pod, key: str, value: str) -> Pod:
    """The pod with this annotation."""
    annotations = {**pod.metadata.annotations, key: value}
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))
