"""Roles allow what the code calls, and nothing else."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from bosket.api.rbac import ClusterRole, PolicyRule, Role
from bosket.api.table import resource_of
from bosket.apiserver.rbac.rule import Rule
from bosket.apiserver.request.request_info import Attributes
from bosket.embedded.services import BACKEND_PREFIX, PROGRAMS, SERVICES
from bosket.grove.backends.catalogue import BUILT_IN
from bosket.grove.render.access import RULES
from bosket.install.account import ACCOUNTS, Account
from bosket.install.right import InvalidTable, Right, format_rights, parse_rights, read_rights
from bosket.install.role import DEFAULT_NAMESPACES, role_objects
from tests.install.call_table import known_keys, read_table, rights_from

REMEDY = "run `python -m tests.install TESTS`, with tests that make these calls"
RIGHTS = [
    pytest.param(account, right, id=" ".join((account.name, *right)))
    for account in ACCOUNTS
    for right in sorted(read_rights()[account.name])
]


def test_every_call_site_has_been_seen_at_work() -> None:
    """Code that calls something new fails here, before anybody is refused anything."""
    unknown = known_keys() - set(read_table())
    assert not unknown, f"nobody knows which rights these calls need; {REMEDY}: {sorted(unknown)}"


def test_what_is_no_longer_called_is_no_longer_allowed() -> None:
    gone = set(read_table()) - known_keys()
    assert not gone, f"these calls are gone, and so must be the rights for them; {REMEDY}: {sorted(gone)}"


def test_rights_are_those_that_the_calls_need() -> None:
    needed, given = rights_from(read_table()), read_rights()
    assert given == needed, "run `python -m tests.install --derive`"


#: A program that asks for nothing, and one whose account the operator makes, for each set.
WITHOUT_ACCOUNT = {"scaling-pod", "grove-initc"}


def test_every_service_has_an_account() -> None:
    backends = {f"{BACKEND_PREFIX}{each.name}" for each in BUILT_IN}
    services = {*SERVICES, *backends, *(each.name for each in PROGRAMS)}
    assert {each.service for each in ACCOUNTS} == services - WITHOUT_ACCOUNT


def test_a_backend_that_runs_apart_may_write_the_objects_of_its_own_scheduler_alone() -> None:
    def written(account: str) -> set[tuple[str, str]]:
        rights = read_rights()[account]
        return {(each.group, each.resource) for each in rights if each.verb == "create" and each.scope == "cluster"}

    for backend in BUILT_IN:
        own = {(resource_of(kind).group, resource_of(kind).plural) for kind in backend.kinds}
        assert written(f"grove-backend-{backend.name}") == own | {("", "events")}


@pytest.mark.parametrize(
    ("account", "right"), RIGHTS, ids=lambda value: " ".join(value) if isinstance(value, Right) else value.name
)
def test_a_role_allows_each_right_and_would_not_without_its_line(account: Account, right: Right) -> None:
    own = read_rights()[account.name]
    assert allows(account, own, right)
    assert not allows(account, own - {right}, right)


def allows(account: Account, rights: frozenset[Right], wanted: Right) -> bool:
    """Whether the roles that are made of these rights allow what is wanted, as an API server judges."""
    resource, _, subresource = wanted.resource.partition("/")
    namespace = "somewhere" if wanted.scope == "cluster" else DEFAULT_NAMESPACES[wanted.scope]
    name = wanted.name or "something"
    asked = Attributes(wanted.verb, wanted.group, resource, subresource, namespace, name)
    for each in role_objects(account, rights, DEFAULT_NAMESPACES):
        if isinstance(each, Role) and each.metadata.namespace != namespace:
            continue
        if isinstance(each, Role | ClusterRole) and any(_allows(rule, asked) for rule in each.rules or ()):
            return True
    return False


def _allows(rule: PolicyRule, asked: Attributes) -> bool:
    parsed = Rule.parse(msgspec.to_builtins(rule))
    return parsed.concerns(asked) and (not parsed.names or asked.name in parsed.names)


#: It makes pods in any namespace, and so could let them read secrets there anyway.
OF_GROVES_OPERATOR = {
    *(Right("", "secrets", verb) for verb in ("get", "list", "watch", "create")),
    *(
        Right("rbac.authorization.k8s.io", resource, verb)
        for resource in ("roles", "rolebindings")
        for verb in ("get", "list", "watch", "create", "patch")
    ),
}


def test_the_operator_has_what_the_roles_that_it_makes_allow() -> None:
    """An API server refuses a role that allows more than its maker may do."""
    own = read_rights()["grove-operator"]
    for rule in RULES:
        granted = itertools.product(rule.apiGroups or (), rule.resources or (), rule.verbs)
        assert {Right(*each) for each in granted} <= own


@pytest.mark.parametrize("account", ACCOUNTS, ids=lambda each: each.name)
def test_nobody_may_do_what_would_make_them_somebody_else(account: Account) -> None:
    """No wildcards, no secrets of others, no roles, no tokens, no impersonation.

    Grove's operator makes a role and a token for the init containers of each set. It may give no more than it has.
    """
    for right in read_rights()[account.name] - (OF_GROVES_OPERATOR if account.name == "grove-operator" else set()):
        assert "*" not in right
        assert right.verb not in ("escalate", "bind", "impersonate")
        assert right.group != "rbac.authorization.k8s.io"
        assert right.resource not in ("serviceaccounts/token", "pods/exec", "nodes/proxy")
        assert right.resource != "secrets" or right.scope == "own"
        assert right.resource != "leases" or right.scope == "own"


def test_a_table_survives_being_written_and_read() -> None:
    rights = read_rights()
    assert parse_rights(format_rights(rights)) == rights


def test_a_line_that_makes_no_sense_is_named() -> None:
    with pytest.raises(InvalidTable, match="line 2 is not: account group resource verbs scope"):
        parse_rights("# a comment\nbinder core pods get everywhere\n")
