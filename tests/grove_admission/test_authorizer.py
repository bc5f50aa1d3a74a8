"""Who may change what the operator made."""

from __future__ import annotations

from typing import Any

import pytest

from bosket.api.admission import AdmissionRequest
from bosket.api.authentication import UserInfo
from bosket.api.grove.operator_configuration import AuthorizerConfiguration, OperatorConfiguration
from bosket.api.meta import GroupVersionKind
from bosket.grove.admission.authorizer import authorize
from bosket.grove.admission.review_handlers import AUTHORIZE, review_handlers
from tests.grove_admission.sets import Cluster

OPERATOR = "system:serviceaccount:grove:grove-operator"
EXEMPT = "system:serviceaccount:kube-system:generic-garbage-collector"
RULES = AuthorizerConfiguration(enabled=True, exemptServiceAccountUserNames=(EXEMPT,))
MANAGED = {"app.kubernetes.io/part-of": "s"}
PROTECTED = Cluster(sets={"ml/s": {}})


def allowed(
    operation: str,
    user: str = "somebody",
    *,
    kind: str = "PodClique",
    old: dict[str, str] | None = MANAGED,
    new: dict[str, str] | None = MANAGED,
    cluster: Cluster = PROTECTED,
) -> tuple[bool, bool]:
    """Whether it may be done, and whether there is a warning."""

    def document(labels: dict[str, str] | None) -> Any:
        return None if labels is None else {"metadata": {"name": "x", "namespace": "ml", "labels": labels}}

    request = AdmissionRequest(
        operation=operation,
        kind=GroupVersionKind(group="grove.io", version="v1alpha1", kind=kind),
        name="x",
        namespace="ml",
        userInfo=UserInfo(username=user),
        object=document(new) if operation in ("CREATE", "UPDATE") else None,
        oldObject=document(old) if operation in ("UPDATE", "DELETE") else None,
    )
    verdict = authorize(request, RULES, OPERATOR, cluster)
    return not verdict.refusals, bool(verdict.warnings)


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
@pytest.mark.parametrize(("user", "may"), [(OPERATOR, True), (EXEMPT, True), ("somebody", False), ("", False)])
def test_only_the_operator_and_those_exempt_may(operation: str, user: str, may: bool) -> None:
    assert allowed(operation, user) == (may, False)


def test_anybody_may_connect_and_delete_pods() -> None:
    assert allowed("CONNECT") == (True, False)
    assert allowed("DELETE", kind="Pod") == (True, False)
    assert allowed("UPDATE", kind="Pod") == (False, False)


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
def test_what_is_nobodys_is_let_through_with_a_warning(operation: str) -> None:
    assert allowed(operation, old={}, new={}) == (True, True)
    assert allowed(operation, cluster=Cluster()) == (True, True)


def test_who_takes_the_label_away_is_asked_by_what_it_was() -> None:
    assert allowed("UPDATE", old=MANAGED, new={}) == (False, False)
    assert allowed("UPDATE", old={}, new=MANAGED) == (True, True)


@pytest.mark.parametrize(("value", "may"), [("true", True), ("false", False), ("", False)])
def test_a_set_may_give_its_protection_up(value: str, may: bool) -> None:
    cluster = Cluster(sets={"ml/s": {"grove.io/disable-managed-resource-protection": value}})
    assert allowed("DELETE", cluster=cluster) == (may, False)


def test_a_refusal_says_what_to_do_instead() -> None:
    request = AdmissionRequest(
        operation="DELETE",
        kind=GroupVersionKind(group="grove.io", version="v1alpha1", kind="PodClique"),
        oldObject={"metadata": {"name": "x", "namespace": "ml", "labels": MANAGED}},
    )
    said = authorize(request, RULES, OPERATOR, PROTECTED).words
    assert said.startswith("PodClique ml/x is managed by PodCliqueSet ml/s and may be deleted by Grove's operator only")


@pytest.mark.parametrize("enabled", [True, False])
def test_one_that_is_off_lets_everything_pass(enabled: bool) -> None:
    """Its webhook may still be registered: nobody must be locked out by that."""
    configuration = OperatorConfiguration(authorizer=AuthorizerConfiguration(enabled=enabled))
    review = review_handlers(configuration, OPERATOR, PROTECTED)[AUTHORIZE]
    old = {"metadata": {"name": "x", "namespace": "ml", "labels": MANAGED}}
    request = AdmissionRequest(operation="DELETE", name="x", namespace="ml", oldObject=old)
    assert bool(review(request).refusals) is enabled
