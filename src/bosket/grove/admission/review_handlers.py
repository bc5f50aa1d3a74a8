"""Review handlers: from an admission review to a verdict, by the pure rules of this package."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from bosket.api.admission import AdmissionRequest
from bosket.api.grove import ClusterTopologyBinding, PodCliqueSet
from bosket.api.grove.operator_configuration import OperatorConfiguration
from bosket.api.object import KubeObject
from bosket.grove.admission.authorizer import authorize
from bosket.grove.admission.binding_rules import check_binding
from bosket.grove.admission.defaults import completed
from bosket.grove.admission.lookup import Lookup
from bosket.grove.admission.set_rules import check_change, check_new
from bosket.kube.patch import json_patch
from bosket.runtime.webhook.review import ReviewHandler
from bosket.runtime.webhook.verdict import ADMITTED, Refusal, Verdict

T = TypeVar("T", bound=KubeObject)

#: Paths, as Grove's webhook configurations name them.
DEFAULT_SETS: Final = "/webhooks/default-podcliqueset"
VALIDATE_SETS: Final = "/webhooks/validate-podcliqueset"
VALIDATE_BINDINGS: Final = "/webhooks/validate-clustertopology"
AUTHORIZE: Final = "/webhooks/authorizer-webhook"


def review_handlers(configuration: OperatorConfiguration, operator: str, cluster: Lookup) -> dict[str, ReviewHandler]:
    """Who answers on which path; `operator` is the operator's user name.

    An authorizer that is off lets everything pass: its registration may have outlived the time when it was on.
    """
    authorizer = configuration.authorizer
    return {
        DEFAULT_SETS: complete_set,
        VALIDATE_SETS: lambda request: check_set(request, configuration, cluster),
        VALIDATE_BINDINGS: lambda request: review_binding(request, configuration),
        AUTHORIZE: lambda request: (
            authorize(request, authorizer, operator, cluster) if authorizer.enabled else ADMITTED
        ),
    }


def complete_set(request: AdmissionRequest) -> Verdict:
    """What a set lacks."""
    if not isinstance(request.object, dict):
        return ADMITTED
    return Verdict(patch=tuple(json_patch(request.object, completed(request.object))))


def check_set(request: AdmissionRequest, configuration: OperatorConfiguration, cluster: Lookup) -> Verdict:
    """Whether a set may be as it is, or become so."""
    new = _decode(request.object, PodCliqueSet)
    if isinstance(new, Verdict):
        return new
    if request.operation != "UPDATE":
        return check_new(new, configuration, cluster)
    # A set that was stored while no webhook completed it is compared by what it means: what defaulting adds to it now
    # is no change of its author's, and must not keep a finalizer from being taken off.
    before = completed(request.oldObject) if isinstance(request.oldObject, dict) else request.oldObject
    old = _decode(before, PodCliqueSet)
    return old if isinstance(old, Verdict) else check_change(old, new, configuration, cluster)


def review_binding(request: AdmissionRequest, configuration: OperatorConfiguration) -> Verdict:
    """Whether a binding may be as it is."""
    new = _decode(request.object, ClusterTopologyBinding)
    return new if isinstance(new, Verdict) else check_binding(new, configuration.scheduler)


def _decode(document: Any, kind: type[T]) -> T | Verdict:
    """The object; or the verdict, where it is none."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        return Verdict((Refusal("", f"can't be read as a {kind.__name__}: {error}"),))
