"""The kubelet's answer to "which pod has which resources": protobuf, as far as zones are concerned.

Messages are those of `v1.PodResourcesLister/List`. Fields that aren't known here are skipped, as protobuf wants it, so
that newer kubelets are understood too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10


class MalformedAnswer(ValueError):
    """Not the message that it should be."""


class Devices(NamedTuple):
    """Devices of one resource, and the zones that they are next to."""

    resource: str
    ids: tuple[str, ...]
    zones: tuple[int, ...]


class Memory(NamedTuple):
    """Memory of one type, in bytes, and the zones that it is in."""

    type: str
    size: int
    zones: tuple[int, ...]


class ContainerResources(NamedTuple):
    """What one container has for itself."""

    devices: tuple[Devices, ...]
    cpus: tuple[int, ...]
    memory: tuple[Memory, ...]


class PodResources(NamedTuple):
    """What a pod's containers have."""

    namespace: str
    name: str
    containers: tuple[ContainerResources, ...]


def decode_list(data: bytes) -> list[PodResources]:
    """All pods of a `ListPodResourcesResponse`; raises `MalformedAnswer`."""
    return [_pod(_bytes(value)) for number, value in _fields(data) if number == 1]


def _pod(data: bytes) -> PodResources:
    name = namespace = ""
    containers = []
    for number, value in _fields(data):
        match number:
            case 1:
                name = _text(value)
            case 2:
                namespace = _text(value)
            case 3:
                containers.append(_container(_bytes(value)))
    return PodResources(namespace, name, tuple(containers))


def _container(data: bytes) -> ContainerResources:
    devices, memory = [], []
    cpus: list[int] = []
    for number, value in _fields(data):
        match number:
            case 2:
                devices.append(_devices(_bytes(value)))
            case 3:
                cpus += _integers(value)
            case 4:
                memory.append(_memory(_bytes(value)))
    return ContainerResources(tuple(devices), tuple(cpus), tuple(memory))


def _devices(data: bytes) -> Devices:
    resource = ""
    ids: list[str] = []
    zones: list[int] = []
    for number, value in _fields(data):
        match number:
            case 1:
                resource = _text(value)
            case 2:
                ids.append(_text(value))
            case 3:
                zones += _zones(_bytes(value))
    return Devices(resource, tuple(ids), tuple(zones))


def _memory(data: bytes) -> Memory:
    type_, size = "", 0
    zones: list[int] = []
    for number, value in _fields(data):
        match number:
            case 1:
                type_ = _text(value)
            case 2:
                size = _integer(value)
            case 3:
                zones += _zones(_bytes(value))
    return Memory(type_, size, tuple(zones))


def _zones(data: bytes) -> Iterator[int]:
    """Of a `TopologyInfo`; zone 0 is written as an empty message, because 0 is what an absent number is."""
    for number, value in _fields(data):
        if number == 1:
            yield next((_integer(zone) for field, zone in _fields(_bytes(value)) if field == 1), 0)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a message."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind = key & 7
        if kind == _VARINT:
            value, place = _varint(data, place)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            length, place = _varint(data, place)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise MalformedAnswer(f"a field has wire type {kind}, which protobuf doesn't have")
        if place + length > len(data):
            raise MalformedAnswer("the message ends in the middle of a field")
        yield key >> 3, data[place : place + length]
        place += length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for count in range(_LONGEST_VARINT):
        if place + count >= len(data):
            raise MalformedAnswer("the message ends in the middle of a number")
        byte = data[place + count]
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value, place + count + 1
    raise MalformedAnswer("a number has more than ten bytes")


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    raise MalformedAnswer("a number is where a message should be")


def _text(value: int | bytes) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError as error:
        raise MalformedAnswer(f"a name isn't UTF-8: {error}") from error


def _integer(value: int | bytes) -> int:
    if isinstance(value, int):
        return value
    raise MalformedAnswer("a message is where a number should be")


def _integers(value: int | bytes) -> list[int]:
    """Repeated numbers come packed together, or one by one."""
    if isinstance(value, int):
        return [value]
    found, place = [], 0
    while place < len(value):
        number, place = _varint(value, place)
        found.append(number)
    return found
