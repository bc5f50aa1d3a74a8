"""Pod admission: `validate` returns what is wrong with a pod, `mutate` a completed pod. Pure, but for random name
suffixes.

Called by the webhooks and the embedded cluster. `mutate` leaves an invalid pod as it is: another webhook may still fix
it before it is validated, and its user sees the pod as written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Protocol

from bosket.api.core import Pod
from bosket.api.keys import (
    GPU_FRACTION_ANNOTATION,
    GPU_FRACTION_DEVICES_ANNOTATION,
    GPU_MEMORY_ANNOTATION,
    MPS_ANNOTATION,
)
from bosket.runtime.webhook.verdict import Refusal
from bosket.services.admission.config_map_name import Suffix, random_suffix
from bosket.services.admission.options import PodRules
from bosket.services.admission.plugins.deviceaccess import DeviceAccess
from bosket.services.admission.plugins.gpusharing import GpuSharing
from bosket.services.admission.plugins.membership import Membership, is_of_a_job
from bosket.services.admission.plugins.sharedgpucontainer import HamiCore, RuntimeEnforcement


class PodPlugin(Protocol):
    """One concern of pod admission: refuses pods, or completes them, or both. It knows nothing but the pod."""

    @property
    def name(self) -> str: ...

    def validate(self, pod: Pod, /) -> Iterable[Refusal]:
        """What is wrong with the pod."""
        ...

    def mutate(self, pod: Pod, /) -> Pod:
        """The pod completed; asked only about pods that nobody refuses, and does nothing the second time."""
        ...


#: Of a pod without any of these only device access has something to refuse.
SHARING_ANNOTATIONS: Final = (
    GPU_FRACTION_ANNOTATION,
    GPU_MEMORY_ANNOTATION,
    GPU_FRACTION_DEVICES_ANNOTATION,
    MPS_ANNOTATION,
)


def may_concern(scheduler_name: str, metadata: Mapping[str, Any], rules: PodRules) -> bool:
    """Whether it is worth decoding a pod: most have nothing to do with any of this."""
    return scheduler_name == rules.scheduler_name and (is_of_a_job(metadata) or may_be_refused(metadata, rules))


def may_be_refused(metadata: Mapping[str, Any], rules: PodRules) -> bool:
    """Whether it is worth checking a pod of our scheduler."""
    annotations = metadata.get("annotations") or {}
    return rules.block_nvidia_visible_devices or any(key in annotations for key in SHARING_ANNOTATIONS)


def validate(pod: Pod, rules: PodRules) -> tuple[Refusal, ...]:
    """What is wrong with the pod; nothing, if it isn't ours to judge."""
    if pod.spec.schedulerName != rules.scheduler_name:
        return ()
    return tuple(refusal for plugin in plugins(rules) for refusal in plugin.validate(pod))


def validate_update(old: Pod, new: Pod, rules: PodRules) -> tuple[Refusal, ...]:
    """What is wrong with the pod and wasn't before.

    A pod that got in under other rules can still be labelled, bound, and let go of by its finalizers.
    """
    refusals = validate(new, rules)
    return tuple(each for each in refusals if each not in validate(old, rules)) if refusals else ()


def mutate(pod: Pod, rules: PodRules, make_suffix: Suffix = random_suffix) -> Pod:
    """The pod completed; the same pod if there is nothing to do."""
    if pod.spec.schedulerName != rules.scheduler_name or validate(pod, rules):
        return pod
    for plugin in plugins(rules, make_suffix):
        pod = plugin.mutate(pod)
    return pod


@lru_cache(maxsize=16)
def plugins(rules: PodRules, make_suffix: Suffix = random_suffix) -> tuple[PodPlugin, ...]:
    """Those that these rules switch on, in their order."""
    chosen: list[PodPlugin] = [GpuSharing(enabled=rules.gpu_sharing_enabled, make_suffix=make_suffix)]
    if rules.hami_core_enabled:
        chosen.append(HamiCore())
    if rules.block_nvidia_visible_devices:
        chosen.append(DeviceAccess())
    if rules.gpu_fraction_runtime_class_name:
        chosen.append(RuntimeEnforcement(rules.gpu_fraction_runtime_class_name))
    chosen.append(Membership())
    return tuple(chosen)
