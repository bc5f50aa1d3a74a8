"""The GPU of this container, from NVIDIA's management library (NVML).

NVML comes with the driver and is mounted into containers with a GPU, so it is loaded at run time with `ctypes`: five
functions, unchanged for ten years, need no wrapper package.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

_LIBRARY: Final = "libnvidia-ml.so.1"
#: NVML_DEVICE_UUID_V2_BUFFER_SIZE
_UUID_BYTES: Final = 96


class DeviceNotFound(Exception):
    """It can't be said which GPU this container has; the message says why and what would be right."""


def only_device(load: Callable[[str], Any] = ctypes.CDLL) -> str:
    """The UUID of the one GPU that this container has; raises `DeviceNotFound` if there is none, or not only one."""
    try:
        library = load(_LIBRARY)
    except OSError as error:
        raise DeviceNotFound(
            f"NVML can't be loaded: {error}; a container that has an NVIDIA GPU gets it from the NVIDIA container "
            "runtime: is this the right runtime class?"
        ) from error
    with _initialised(library):
        count = ctypes.c_uint()
        _check(library, library.nvmlDeviceGetCount_v2(ctypes.byref(count)), "count the GPUs")
        if count.value != 1:
            raise DeviceNotFound(
                f"found {count.value} devices, 1 was expected: the pod must request one nvidia.com/gpu"
            )
        device = ctypes.c_void_p()
        _check(library, library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(0), ctypes.byref(device)), "open the GPU")
        text = ctypes.create_string_buffer(_UUID_BYTES)
        status = library.nvmlDeviceGetUUID(device, text, ctypes.c_uint(_UUID_BYTES))
        _check(library, status, "read the GPU's UUID")
        return text.value.decode("ascii")


@contextmanager
def _initialised(library: Any) -> Iterator[None]:
    _check(library, library.nvmlInit_v2(), "initialise")
    try:
        yield
    finally:
        library.nvmlShutdown()  # the UUID is known by then; that the library ends badly changes nothing


def _check(library: Any, status: int, purpose: str) -> None:
    if status == 0:
        return
    library.nvmlErrorString.restype = ctypes.c_char_p
    reason = library.nvmlErrorString(status) or b"unknown error"
    raise DeviceNotFound(f"NVML can't {purpose}: {reason.decode('ascii', 'replace')} (code {status})")
