"""Roles and bindings, by subject. Filled when it is first asked, and kept up to date by the store from then on.

A change costs what it changes: one binding is taken out and put in again, one role's rules are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from bosket.apiserver.rbac.rule import Rule
from bosket.apiserver.request.resource_request import User
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.store.resource_store import Event, ResourceStore
from bosket.apiserver.store.store import Store

GROUP: Final = "rbac.authorization.k8s.io"
SERVICE_ACCOUNT: Final = "system:serviceaccount:"

#: Of a user or a group: (kind, name).
_Subject = tuple[str, str]


class Binding(NamedTuple):
    """What one binding grants to one of its subjects."""

    #: empty for the whole cluster
    namespace: str
    name: str
    role_kind: str
    role_name: str
    #: for people: `Group "system:masters"`
    subject: str

    def __str__(self) -> str:
        kind, name = (
            ("RoleBinding", f"{self.name}/{self.namespace}") if self.namespace else ("ClusterRoleBinding", self.name)
        )
        return f'{kind} "{name}" of {self.role_kind} "{self.role_name}" to {self.subject}'


class RoleMissing(LookupError):
    """A binding speaks of a role that isn't there."""


class RoleIndex:
    """Finds the bindings of a user and the rules of a role."""

    def __init__(self, store: Store, changed: Callable[[], None]) -> None:
        self._roles = store.resource(GROUP, "roles")
        self._cluster_roles = store.resource(GROUP, "clusterroles", namespaced=False)
        self._bindings = (
            store.resource(GROUP, "rolebindings"),
            store.resource(GROUP, "clusterrolebindings", namespaced=False),
        )
        self._changed = changed
        self._by_subject: dict[_Subject, dict[tuple[str, str], Binding]] | None = None
        self._rules: dict[tuple[str, str], tuple[Rule, ...]] = {}
        for resource_store in (self._roles, self._cluster_roles):
            resource_store.listen(self._on_role)
        for resource_store in self._bindings:
            resource_store.listen(self._on_binding)

    def bindings(self, user: User) -> Iterator[Binding]:
        """All bindings of which the user is a subject, by name or by group."""
        index = self._by_subject
        if index is None:
            index = self._by_subject = {}
            for resource_store in self._bindings:
                for entry in resource_store.entries():
                    self._put(entry.decode())
        for subject in (("User", user.name), *(("Group", group) for group in user.groups)):
            yield from index.get(subject, {}).values()

    def rules(self, kind: str, name: str, namespace: str) -> tuple[Rule, ...]:
        """The rules of the role that a binding in `namespace` names; raises `RoleMissing`."""
        resource_store: ResourceStore = self._roles if kind == "Role" else self._cluster_roles
        home = namespace if kind == "Role" else ""
        rules = self._rules.get((home, name))
        if rules is None:
            entry = resource_store.get(home, name)
            if entry is None:
                raise RoleMissing(f'{kind.lower()}.{GROUP} "{name}" not found')
            rules = self._rules[home, name] = tuple(Rule.parse(rule) for rule in entry.decode().get("rules") or ())
        return rules

    # called by the store

    def _on_role(self, event: Event) -> None:
        self._rules.pop((event.entry.namespace, event.entry.name), None)
        self._changed()

    def _on_binding(self, event: Event) -> None:
        self._changed()
        if self._by_subject is None:
            return
        if event.previous is not None:
            doc = event.previous.decode()
            key = (event.previous.namespace, event.previous.name)
            for subject, _ in _subjects(doc):
                self._by_subject.get(subject, {}).pop(key, None)
        if event.type != "DELETED":
            self._put(event.entry.decode())

    def _put(self, doc: Doc) -> None:
        assert self._by_subject is not None
        metadata, role = doc["metadata"], doc["roleRef"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        for subject, shown in _subjects(doc):
            binding = Binding(namespace, name, role["kind"], role["name"], shown)
            self._by_subject.setdefault(subject, {})[namespace, name] = binding


def _subjects(doc: Doc) -> Iterator[tuple[_Subject, str]]:
    """The subjects of a binding, with their names for people; a service account is a user of a long name."""
    for each in doc.get("subjects") or ():
        kind, name = each["kind"], each["name"]
        if kind == "ServiceAccount":
            namespace = each.get("namespace") or doc["metadata"].get("namespace", "")
            yield ("User", f"{SERVICE_ACCOUNT}{namespace}:{name}"), f'{kind} "{name}/{namespace}"'
        else:
            yield (kind, name), f'{kind} "{name}"'
