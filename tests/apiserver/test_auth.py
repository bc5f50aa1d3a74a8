"""Who is asking: tokens of service accounts, bootstrap tokens, impersonation."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from multidict import CIMultiDict

from bosket.apiserver.auth.impersonation import impersonated
from bosket.apiserver.auth.jwt import BadToken, SigningKey
from bosket.apiserver.auth.service_account import ISSUER
from bosket.apiserver.request.resource_request import User
from bosket.apiserver.status import StatusError
from tests.apiserver.test_rbac import CLUSTER_BINDINGS, CLUSTER_ROLES, Asking, binding, role, rule
from tests.apiserver.world import PODS, World

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
SECRETS = "/api/v1/namespaces/kube-system/secrets"


async def account(world: World, name: str = "robot") -> dict[str, Any]:
    created: dict[str, Any] = await world.ok("POST", ACCOUNTS, {"metadata": {"name": name}})
    return created


async def token(world: World, **spec: Any) -> str:
    answer = await world.ok("POST", f"{ACCOUNTS}/robot/token", {"spec": spec})
    return str(answer["status"]["token"])


async def reviewed(world: World, text: str, *audiences: str) -> dict[str, Any]:
    spec = {"token": text, "audiences": list(audiences)}
    status: dict[str, Any] = (await world.ok("POST", REVIEWS, {"spec": spec}))["status"]
    return status


def claims(text: str) -> dict[str, Any]:
    body = text.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return found


# tokens of service accounts


async def test_a_token_says_whose_it_is(world: World) -> None:
    uid = (await account(world))["metadata"]["uid"]
    text = await token(world, expirationSeconds=700)
    said = claims(text)
    assert said["sub"] == "system:serviceaccount:default:robot"
    assert (said["iss"], said["aud"], said["exp"] - said["iat"]) == (ISSUER, [ISSUER], 700)
    assert said["kubernetes.io"] == {"namespace": "default", "serviceaccount": {"name": "robot", "uid": uid}}
    status = await reviewed(world, text)
    assert status == {
        "authenticated": True,
        "user": {
            "username": "system:serviceaccount:default:robot",
            "uid": uid,
            "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
            "extra": {"authentication.kubernetes.io/credential-id": [f"JTI={said['jti']}"]},
        },
        "audiences": [ISSUER],
    }


async def test_a_token_is_good_for_its_audience_only(world: World) -> None:
    await account(world)
    text = await token(world, audiences=["vault", "other"])
    assert "invalid for the target audiences" in (await reviewed(world, text))["error"]
    assert (await reviewed(world, text, "vault", "third"))["audiences"] == ["vault"]


async def test_a_token_ends_with_its_account_and_with_the_object_it_is_bound_to(world: World) -> None:
    await account(world)
    await world.create_pod("p", serviceAccountName="robot")
    bound = await token(world, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"})
    free = await token(world)
    extra = (await reviewed(world, bound))["user"]["extra"]
    assert extra["authentication.kubernetes.io/pod-name"] == ["p"]
    await world.ok("DELETE", f"{PODS}/p", gracePeriodSeconds=0)
    assert "has been invalidated" in (await reviewed(world, bound))["error"]
    assert (await reviewed(world, free))["authenticated"]
    await world.ok("DELETE", f"{ACCOUNTS}/robot")
    await account(world)  # another one, of the same name
    assert not (await reviewed(world, free)).get("authenticated")


@pytest.mark.parametrize(
    ("code", "body", "words"),
    [
        (422, {"spec": {"expirationSeconds": 599}}, "may not specify a duration less than 10 minutes"),
        (422, {"spec": {"expirationSeconds": 1 << 33}}, "may not specify a duration larger than 2^32 seconds"),
        (422, {"metadata": {"name": "other"}}, "must match the service account name if specified"),
        (404, {"spec": {"boundObjectRef": {"kind": "Pod", "name": "none"}}}, 'pods "none" not found'),
        (400, {"spec": {"boundObjectRef": {"kind": "Pod", "name": "p"}}}, "running with different serviceaccount"),
        (400, {"spec": {"boundObjectRef": {"kind": "Job", "name": "p"}}}, "cannot bind token to object of type"),
        (409, {"spec": {"boundObjectRef": {"kind": "Secret", "name": "s", "uid": "x"}}}, "does not match the UID"),
        (409, {"metadata": {"uid": "x"}}, "does not match the UID of the service account"),
        (400, {"spec": {"expirationSeconds": "soon"}}, "not a TokenRequest"),
    ],
)
async def test_a_request_for_a_token_must_make_sense(world: World, code: int, body: Any, words: str) -> None:
    await account(world)
    await world.create_pod("p")
    await world.ok("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})
    assert words in (await world.refused(code, "POST", f"{ACCOUNTS}/robot/token", body))["message"]


@pytest.mark.parametrize("change", ["head", "body", "signature", "algorithm", "length", "none", "text", "long"])
async def test_a_forged_token_is_no_token(world: World, change: str) -> None:
    await account(world)
    head, body, signature = (await token(world)).split(".")
    weak = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    other = SigningKey().sign(claims(f"{head}.{body}.{signature}")).split(".")
    forged = {
        "head": f"{head}x.{body}.{signature}",
        "body": f"{head}.{other[1][:-2]}AA.{signature}",
        "signature": f"{head}.{body}.{other[2]}",
        "algorithm": f"{weak}.{body}.{signature}",
        "length": f"{head}.{body}.{signature[:-4]}",
        "none": f"{weak}.{body}.",
        "text": "a.b.c",
        "long": f"{head}.{body * 100}.{signature}",
    }[change]
    assert not (await reviewed(world, forged)).get("authenticated")


async def test_others_can_check_tokens_with_the_published_key(world: World) -> None:
    await account(world)
    text = await token(world)
    about = await world.ok("GET", "/.well-known/openid-configuration")
    assert (about["issuer"], about["id_token_signing_alg_values_supported"]) == (ISSUER, ["ES256"])
    answer = await world.call("GET", "/openid/v1/jwks")
    assert answer.headers["content-type"] == "application/jwk-set+json"
    (key,) = json.loads(answer.body)["keys"]
    head = json.loads(base64.urlsafe_b64decode(text.split(".")[0] + "=="))
    assert head == {"alg": "ES256", "kid": key["kid"]}
    assert (key["kty"], key["crv"]) == ("EC", "P-256")


def test_a_key_that_is_kept_knows_its_tokens() -> None:
    kept: list[bytes] = []

    def keep(make: Callable[[], bytes]) -> bytes:
        if not kept:
            kept.append(make())
        return kept[0]

    text = SigningKey(keep).sign({"sub": "x"})
    assert SigningKey(keep).verify(text) == {"sub": "x"}
    with pytest.raises(BadToken):
        SigningKey().verify(text)


# bootstrap tokens


@pytest.mark.parametrize(
    ("change", "good"),
    [
        ({}, True),
        ({"token-secret": "other-secret-xxx"}, False),
        ({"usage-bootstrap-authentication": "false"}, False),
        ({"expiration": "2020-01-01T00:00:00Z"}, False),
        ({"expiration": "2120-01-01T00:00:00Z"}, True),
        ({"expiration": "never"}, False),
    ],
)
async def test_a_bootstrap_token_is_a_secret(world: World, change: dict[str, str], good: bool) -> None:
    data = {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:workers,system:masters",
        **change,
    }
    secret = {
        "metadata": {"name": "bootstrap-token-abcdef"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": data,
    }
    await world.ok("POST", SECRETS, secret)
    status = await reviewed(world, "abcdef.0123456789abcdef")
    assert status.get("authenticated", False) == good
    if good:
        assert status["user"] == {
            "username": "system:bootstrap:abcdef",
            "groups": ["system:bootstrappers", "system:bootstrappers:workers", "system:authenticated"],
        }


# acting as others


def act(world: World, user: User, *headers: tuple[str, str]) -> User:
    return impersonated(user, CIMultiDict(headers).items(), world.server.authorizer)


async def test_each_part_of_another_identity_must_be_allowed() -> None:
    world = Asking()
    jane = User("jane", ("system:authenticated",))
    group = "authentication.k8s.io"
    await world.ok(
        "POST",
        CLUSTER_ROLES,
        role(
            "acts",
            rule("impersonate", "users", resourceNames=["bob"]),
            rule("impersonate", "groups", resourceNames=["team"]),
            rule("impersonate", "userextras/scopes", group),
            rule("impersonate", "serviceaccounts"),
        ),
    )
    await world.ok("POST", CLUSTER_BINDINGS, binding("acts", "acts", kind="ClusterRole"))
    assert act(world, jane) == jane
    bob = act(world, jane, ("Impersonate-User", "bob"), ("Impersonate-Group", "team"))
    assert bob == User("bob", ("team", "system:authenticated"))
    scoped = act(
        world, jane, ("Impersonate-User", "bob"), ("Impersonate-Extra-Scopes", "a"), ("Impersonate-Extra-Scopes", "b")
    )
    assert scoped.extra == {"scopes": ("a", "b")}
    robot = act(world, jane, ("Impersonate-User", "system:serviceaccount:x:robot"))
    assert robot.groups == ("system:serviceaccounts", "system:serviceaccounts:x", "system:authenticated")
    for headers, words in (
        ([("Impersonate-User", "eve")], 'users "eve" is forbidden: User "jane" cannot impersonate resource "users"'),
        (
            [("Impersonate-User", "bob"), ("Impersonate-Group", "system:masters")],
            'groups "system:masters" is forbidden',
        ),
        ([("Impersonate-User", "bob"), ("Impersonate-Uid", "1")], 'uids.authentication.k8s.io "1" is forbidden'),
        (
            [("Impersonate-User", "bob"), ("Impersonate-Extra-Other", "a")],
            'cannot impersonate resource "userextras/other"',
        ),
    ):
        with pytest.raises(StatusError) as refused:
            act(world, jane, *headers)
        assert refused.value.code == 403
        assert words in refused.value.message


async def test_who_acts_as_nobody_in_a_group_is_refused(world: World) -> None:
    master = User("admin", ("system:masters",))
    with pytest.raises(StatusError) as refused:
        act(world, master, ("Impersonate-Group", "team"))
    assert refused.value.code == 400
    assert act(world, master, ("impersonate-user", "system:anonymous")).groups == ("system:unauthenticated",)
