"""Whatever stands in a pod's annotations, it is refused with a sentence or comes out as a pod that is admitted."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api.core import Container, EnvVar, Pod
from bosket.api.object import OwnerReference
from bosket.runtime.webhook.verdict import sentence
from bosket.scheduler.model.gpu_share import share_of
from bosket.services.admission.pod import mutate, validate
from tests.admission.pods import EVERYTHING, container, pod

KEYS = ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "gpu-fraction-container-name", "mps")
NUMBERS = st.one_of(
    st.floats().map(str),
    st.floats(min_value=0, max_value=1).map(str),
    st.integers().map(str),
    st.integers(min_value=0, max_value=10**6).map(str),
)
TEXTS = st.one_of(
    st.text(max_size=80), NUMBERS, st.sampled_from(["main", "init", "true", "0.5", "1e-400", "NaN", "x" * 99])
)
DNS_LABEL = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@st.composite
def containers(draw: st.DrawFn, name: str) -> Container:
    limits: dict[str, Any] = draw(
        st.dictionaries(st.sampled_from(["cpu", "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"]), st.just("1"), max_size=1)
    )
    names = st.sampled_from(["A", "NVIDIA_VISIBLE_DEVICES", "GPU_PORTION"])
    env = draw(st.lists(st.builds(EnvVar, name=names, value=st.sampled_from(["", "void", "all"])), max_size=3))
    return container(name, limits=limits, env=tuple(env))


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    annotations = draw(
        st.dictionaries(st.sampled_from((*KEYS, "runai/shared-gpu-configmap", "other")), TEXTS, max_size=4)
    )
    owner = draw(st.none() | st.text(max_size=70))
    owners = () if owner is None else (OwnerReference(apiVersion="v1", kind="X", name=owner, uid="u"),)
    names = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,60}[a-z0-9])?", fullmatch=True)
    meta: dict[str, Any] = {"name": draw(st.just("") | names), "ownerReferences": owners}
    init = (draw(containers("init")),) if draw(st.booleans()) else ()
    return pod(annotations, containers=(draw(containers("main")),), initContainers=init, meta=meta)


@settings(deadline=None, max_examples=100)
@given(pods())
def test_is_refused_with_a_sentence_or_completed(asked: Pod) -> None:
    refusals = validate(asked, EVERYTHING)
    completed = mutate(asked, EVERYTHING)
    if refusals:
        assert completed is asked
        assert 20 < len(sentence(refusals)) < 2000
        return
    share = share_of(asked.metadata.annotations)  # the scheduler can read what is admitted
    assert share is None or share.portion < 1
    assert validate(completed, EVERYTHING) == ()
    assert mutate(completed, EVERYTHING) == completed
    for volume in completed.spec.volumes:
        assert DNS_LABEL.fullmatch(volume.name)
        assert len(volume.name) <= 63
