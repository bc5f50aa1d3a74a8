"""Authorizer: whether a user may do something. Answers are cached until a role or a binding changes.

What is remembered of a question leaves the object's name out: it is "yes", or the names for which it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bosket.apiserver.rbac.index import Binding, RoleIndex, RoleMissing
from bosket.apiserver.rbac.rule import ALL, Rule
from bosket.apiserver.request.request_info import Attributes
from bosket.apiserver.request.resource_request import User
from bosket.apiserver.status import StatusError, qualified
from bosket.apiserver.store.store import Store

#: May do everything, whatever roles say: nobody locks themselves out.
MASTERS: Final = "system:masters"
_EVERYTHING: Final = (Rule((ALL,), (ALL,), (ALL,)), Rule((ALL,), urls=(ALL,)))
#: Answers to remember; beyond, all are forgotten.
_MEMORY: Final = 20_000

#: Any name will do, or one of these.
_Names = frozenset[str] | None
_Question = tuple[str, tuple[str, ...], str, str, str, str, str, str]


class Authorizer:
    """Evaluates roles and bindings."""

    def __init__(self, store: Store) -> None:
        self._answers: dict[_Question, _Names] = {}
        self.index = RoleIndex(store, self._answers.clear)

    def check(self, user: User, attributes: Attributes) -> None:
        """Raise a 403 unless it is allowed."""
        if not self.allows(user, attributes):
            raise _refusal(user, attributes, self._trouble(user, attributes.namespace))

    def allows(self, user: User, attributes: Attributes) -> bool:
        if MASTERS in user.groups:
            return True
        question = (
            user.name,
            user.groups,
            attributes.verb,
            attributes.group,
            attributes.resource,
            attributes.subresource,
            attributes.namespace,
            attributes.path,
        )
        try:
            names = self._answers[question]
        except KeyError:
            if len(self._answers) >= _MEMORY:
                self._answers.clear()
            names = self._answers[question] = self._names(user, attributes)
        return names is None or attributes.name in names

    def explain(self, user: User, attributes: Attributes) -> tuple[bool, str]:
        """Whether it is allowed, and by which binding; or what is amiss with the bindings that were looked at."""
        if MASTERS in user.groups:
            return True, ""
        for binding, rule in self._granted(user, attributes.namespace):
            if rule.concerns(attributes) and (not rule.names or attributes.name in rule.names):
                return True, f"RBAC: allowed by {binding}"
        return False, self._trouble(user, attributes.namespace)

    def rules(self, user: User, namespace: str) -> list[Rule]:
        """All that a user may do in a namespace, or in the whole cluster if it is empty."""
        if MASTERS in user.groups:
            return list(_EVERYTHING)
        return list(dict.fromkeys(rule for _, rule in self._granted(user, namespace)))

    def _names(self, user: User, attributes: Attributes) -> _Names:
        names: set[str] = set()
        for _, rule in self._granted(user, attributes.namespace):
            if rule.concerns(attributes):
                if not rule.names:
                    return None
                names.update(rule.names)
        return frozenset(names)

    def _granted(self, user: User, namespace: str) -> Iterator[tuple[Binding, Rule]]:
        for binding in self.index.bindings(user):
            if binding.namespace in ("", namespace):
                try:
                    rules = self.index.rules(binding.role_kind, binding.role_name, binding.namespace)
                except RoleMissing:
                    continue
                for rule in rules:
                    yield binding, rule

    def _trouble(self, user: User, namespace: str) -> str:
        """Roles that bindings of the user speak of, and that aren't there."""
        missing: dict[str, None] = {}
        for binding in self.index.bindings(user):
            if binding.namespace in ("", namespace):
                try:
                    self.index.rules(binding.role_kind, binding.role_name, binding.namespace)
                except RoleMissing as error:
                    missing[str(error)] = None
        if not missing:
            return ""
        return f"RBAC: {next(iter(missing)) if len(missing) == 1 else '[' + ', '.join(missing) + ']'}"


def _refusal(user: User, attributes: Attributes, reason: str = "") -> StatusError:
    """The 403 that says who can't do what."""
    tail = f": {reason}" if reason else ""
    if not attributes.resource:
        message = f'forbidden: User "{user.name}" cannot {attributes.verb} path "{attributes.path}"{tail}'
        return StatusError(403, "Forbidden", message)
    where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    resource = qualified(attributes.resource, attributes.group)
    named = f'{resource} "{attributes.name}"' if attributes.name else resource
    message = (
        f'{named} is forbidden: User "{user.name}" cannot {attributes.verb} resource "{attributes.combined}" '
        f'in API group "{attributes.group}" {where}{tail}'
    )
    return StatusError(
        403, "Forbidden", message, group=attributes.group, kind=attributes.resource, name=attributes.name
    )
