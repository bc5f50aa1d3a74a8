"""Escalation check: the author of a role or binding must hold all rights that it grants.

Unless they may `escalate` the role, or `bind` the one that the binding names. Part of admission; the server's own
writes are not asked about.
"""

from __future__ import annotations

from typing import Any, Final

from bosket.apiserver.rbac.authorizer import MASTERS, Authorizer
from bosket.apiserver.rbac.index import GROUP, RoleMissing
from bosket.apiserver.rbac.rule import ALL, Rule, not_covered, quoted
from bosket.apiserver.request.request_info import Attributes
from bosket.apiserver.request.resource_request import User
from bosket.apiserver.status import forbidden, not_found
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.writing.writer import Write

_FULL: Final = (Rule((ALL,), (ALL,), (ALL,)), Rule((ALL,), urls=(ALL,)))
_PLURALS: Final = {"Role": "roles", "ClusterRole": "clusterroles"}


class CreationCheck:
    """Refuses objects whose writer may not create them."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def admit(self, write: Write, new: Doc, old: Doc | None) -> None:
        if old is not None or MASTERS in write.user.groups:
            return
        name = new["metadata"].get("name", "")
        attributes = Attributes("create", write.kind.group, write.kind.plural, "", write.namespace, name)
        self._authorizer.check(write.user, attributes)


class EscalationCheck:
    """Refuses roles and bindings that grant more than their writer has."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def admit(self, write: Write, new: Doc, old: Doc | None) -> None:
        if write.kind.group != GROUP or MASTERS in write.user.groups:
            return
        if old is not None and _grants(new) == _grants(old):
            return
        if write.kind.plural in ("roles", "clusterroles"):
            self._check_role(write, new)
        else:
            self._check_binding(write, new)

    def _check_role(self, write: Write, new: Doc) -> None:
        name = new["metadata"].get("name", "")
        if self._may(write.user, "escalate", write.kind.plural, write.namespace, name):
            return
        self._check_held(write, name, tuple(Rule.parse(rule) for rule in new.get("rules") or ()))
        aggregation = new.get("aggregationRule")
        if aggregation and not_covered(self._authorizer.rules(write.user, ""), _FULL):
            detail = "must have cluster-admin privileges to use the aggregationRule"
            raise forbidden(GROUP, write.kind.plural, name, detail)

    def _check_binding(self, write: Write, new: Doc) -> None:
        role: dict[str, Any] = new.get("roleRef") or {}
        kind, name = role.get("kind", ""), role.get("name", "")
        if kind not in _PLURALS:
            return  # the kind's own rules refuse it
        if self._may(write.user, "bind", _PLURALS[kind], write.namespace, name):
            return
        try:
            rules = self._authorizer.index.rules(kind, name, write.namespace)
        except RoleMissing:
            raise not_found(GROUP, kind.lower(), name) from None
        self._check_held(write, new["metadata"].get("name", ""), rules)

    def _may(self, user: User, verb: str, plural: str, namespace: str, name: str) -> bool:
        attributes = Attributes(verb, GROUP, plural, namespace=namespace, name=name)
        return self._authorizer.allows(user, attributes)

    def _check_held(self, write: Write, name: str, rules: tuple[Rule, ...]) -> None:
        user = write.user
        missing = not_covered(self._authorizer.rules(user, write.namespace), rules)
        if missing:
            listed = "\n".join(sorted(map(str, missing)))
            detail = (
                f'user "{user.name}" (groups={quoted(user.groups)}) is attempting to grant RBAC permissions not '
                f"currently held:\n{listed}"
            )
            raise forbidden(GROUP, write.kind.plural, name, detail)


def _grants(doc: Doc) -> tuple[Any, ...]:
    """What makes a difference to what is granted."""
    return tuple(doc.get(key) for key in ("rules", "aggregationRule", "roleRef", "subjects"))
