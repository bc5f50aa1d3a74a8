"""Which GPU this container has, as NVML says: exactly one, or a sentence about what is wrong."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from bosket.services.reservation import DeviceNotFound, only_device

UUID = b"GPU-5f0b6d9a-8a3e-4c3b-9a59-0d4b5a1f4a77"


class Library(SimpleNamespace):
    """NVML with so many GPUs, of which one function may fail."""

    def __init__(self, devices: int = 1, failing: str = "") -> None:
        def answer(name: str, act: Callable[..., None] = lambda *_: None) -> Callable[..., int]:
            def call(*arguments: Any) -> int:
                self.calls.append(name)
                act(*arguments)
                return 9 if name == failing else 0

            return call

        def count(found: Any) -> None:
            found._obj.value = devices

        def open_first(index: Any, device: Any) -> None:
            assert index.value == 0
            device._obj.value = 4711

        def read_uuid(device: Any, text: Any, length: Any) -> None:
            assert (device.value, length.value) == (4711, ctypes.sizeof(text))
            text.value = UUID

        def say(status: int) -> bytes:
            return {9: b"Driver Not Loaded"}[status]

        super().__init__(
            calls=[],
            nvmlErrorString=say,
            nvmlInit_v2=answer("nvmlInit_v2"),
            nvmlShutdown=answer("nvmlShutdown"),
            nvmlDeviceGetCount_v2=answer("nvmlDeviceGetCount_v2", count),
            nvmlDeviceGetHandleByIndex_v2=answer("nvmlDeviceGetHandleByIndex_v2", open_first),
            nvmlDeviceGetUUID=answer("nvmlDeviceGetUUID", read_uuid),
        )


def test_the_one_device_is_named_by_its_uuid() -> None:
    library = Library()
    names = []

    def load(name: str) -> Library:
        names.append(name)
        return library

    assert only_device(load) == UUID.decode()
    assert names == ["libnvidia-ml.so.1"]
    assert library.calls[-1] == "nvmlShutdown"


@pytest.mark.parametrize("devices", [0, 2])
def test_none_or_several_devices_are_an_error_that_says_how_many(devices: int) -> None:
    library = Library(devices)
    with pytest.raises(DeviceNotFound, match=f"found {devices} devices, 1 was expected"):
        only_device(lambda _name: library)
    assert library.calls[-1] == "nvmlShutdown"


@pytest.mark.parametrize(
    ("failing", "words"),
    [
        ("nvmlInit_v2", "NVML can't initialise"),
        ("nvmlDeviceGetCount_v2", "NVML can't count the GPUs"),
        ("nvmlDeviceGetHandleByIndex_v2", "NVML can't open the GPU"),
        ("nvmlDeviceGetUUID", "NVML can't read the GPU's UUID"),
    ],
)
def test_what_nvml_refuses_is_said_in_its_own_words(failing: str, words: str) -> None:
    library = Library(failing=failing)
    with pytest.raises(DeviceNotFound, match=rf"{words}: Driver Not Loaded \(code 9\)"):
        only_device(lambda _name: library)


def test_a_container_without_nvml_is_told_where_it_comes_from() -> None:
    def load(_name: str) -> Any:
        raise OSError("libnvidia-ml.so.1: cannot open shared object file")

    with pytest.raises(DeviceNotFound, match=r"NVML can't be loaded: .*runtime class"):
        only_device(load)
