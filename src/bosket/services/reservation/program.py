"""What happens in a reservation pod from its start to its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from bosket.api.core import Pod
from bosket.api.keys import RESERVED_GPU_ANNOTATION
from bosket.kube.client import Client

_log = logging.getLogger(__name__)


class NotInPod(Exception):
    """The environment doesn't say which pod this is; the message names what is missing."""


class OwnPod(NamedTuple):
    """The pod that this process runs in."""

    namespace: str
    name: str


def own_pod(environment: Mapping[str, str]) -> OwnPod:
    """As the variables say that every reservation pod has; raises `NotInPod`."""
    for variable in ("POD_NAMESPACE", "POD_NAME"):
        if not environment.get(variable):
            raise NotInPod(f"environment variable {variable} is not set: this program runs in a reservation pod only")
    return OwnPod(environment["POD_NAMESPACE"], environment["POD_NAME"])


async def hold_device(client: Client, pod: OwnPod, find: Callable[[], str]) -> None:
    """Report the device and stay until cancelled; what stops the report is raised."""
    device = await report_device(client, pod, find)
    _log.info("holding a GPU", extra={"pod": f"{pod.namespace}/{pod.name}", "device": device})
    await client.aclose()  # nothing more will be asked
    await asyncio.Event().wait()


async def report_device(client: Client, pod: OwnPod, find: Callable[[], str]) -> str:
    """The pod's device: as it says itself, else as `find` says, which is then written onto the pod."""
    found = await client.get(Pod, pod.name, pod.namespace)
    known = found.metadata.annotations.get(RESERVED_GPU_ANNOTATION)
    if known:
        return known
    device = find()
    # The uid keeps it off another pod of that name.
    patch = {"metadata": {"uid": found.metadata.uid, "annotations": {RESERVED_GPU_ANNOTATION: device}}}
    await client.patch(Pod, pod.name, patch, namespace=pod.namespace)
    return device
