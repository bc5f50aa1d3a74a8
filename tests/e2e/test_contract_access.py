"""What every API server promises of who gets in: tokens, impersonation, formats that are read, and limits."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import pytest

from bosket.api.object import ObjectMeta
from bosket.api.rbac import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from bosket.kube.credentials import Credential, bearer
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import pod
from tests.e2e.wire import Wire, on_the_wire

ISSUER: Final = "https://kubernetes.default.svc"
AUTHENTICATION: Final = "/apis/authentication.k8s.io/v1"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
EXTRA: Final = "authentication.kubernetes.io"


async def token(wire: Wire, **spec: Any) -> str:
    answer = await wire.send("POST", wire.path("serviceaccounts", "bot/token"), {"spec": spec})
    assert answer.status == 201, answer.body
    return str(answer.body["status"]["token"])


async def reviewed(wire: Wire, text: str, *audiences: str) -> dict[str, Any]:
    spec = {"token": text, "audiences": list(audiences)}
    answer = await wire.send("POST", f"{AUTHENTICATION}/tokenreviews", {"spec": spec})
    assert answer.status == 201, answer.body
    status: dict[str, Any] = answer.body["status"]
    return status


def claims(text: str) -> dict[str, Any]:
    body = text.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return found


def shown(text: str) -> Credential:
    return Credential(authorization=bearer(text))


async def test_a_token_of_a_service_account_says_whose_it_is_and_gets_in(cluster: Cluster) -> None:
    namespace = cluster.namespace
    async with on_the_wire(cluster) as admin:
        uid = (await admin.create("serviceaccounts", {"metadata": {"name": "bot"}})).body["metadata"]["uid"]
        text = await token(admin, expirationSeconds=700)
        said = claims(text)
        name = f"system:serviceaccount:{namespace}:bot"
        assert (said["iss"], said["aud"], said["sub"]) == (ISSUER, [ISSUER], name)
        assert said["exp"] - said["iat"] == 700
        assert said["kubernetes.io"] == {"namespace": namespace, "serviceaccount": {"name": "bot", "uid": uid}}
        user = {
            "username": name,
            "uid": uid,
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"],
            "extra": {f"{EXTRA}/credential-id": [f"JTI={said['jti']}"]},
        }
        assert await reviewed(admin, text) == {"authenticated": True, "user": user, "audiences": [ISSUER]}
        async with on_the_wire(cluster, credential=shown(text)) as bot:
            own = await bot.send("POST", f"{AUTHENTICATION}/selfsubjectreviews", {})
            assert own.body["status"]["userInfo"] == user
            refused = await bot.list("pods")
            assert (refused.status, f'User "{name}" cannot list' in refused.message) == (403, True)
        forged = text[:-4] + ("AAAA" if not text.endswith("AAAA") else "BBBB")
        assert not (await reviewed(admin, forged)).get("authenticated")
        async with on_the_wire(cluster, credential=shown(forged)) as nobody:
            answer = await nobody.list("pods")
            assert (answer.status, answer.reason, answer.message) == (401, "Unauthorized", "Unauthorized")


async def test_a_token_is_for_an_audience_and_bound_to_objects(cluster: Cluster) -> None:
    async with on_the_wire(cluster) as admin:
        await admin.create("serviceaccounts", {"metadata": {"name": "bot"}})
        other = await token(admin, audiences=["vault", "other"])
        assert not (await reviewed(admin, other)).get("authenticated")
        assert (await reviewed(admin, other, "vault", "third"))["audiences"] == ["vault"]
        async with on_the_wire(cluster, credential=shown(other)) as bot:
            assert (await bot.list("pods")).status == 401
        manifest = pod("p")
        manifest["spec"]["serviceAccountName"] = "bot"
        made = await admin.create("pods", manifest)
        assert made.status == 201, made.body
        reference = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": made.body["metadata"]["uid"]}
        bound = await token(admin, boundObjectRef=reference)
        extra = (await reviewed(admin, bound))["user"]["extra"]
        assert extra[f"{EXTRA}/pod-name"] == ["p"]
        assert extra[f"{EXTRA}/pod-uid"] == [reference["uid"]]
        assert claims(bound)["kubernetes.io"]["pod"] == {"name": "p", "uid": reference["uid"]}
        await admin.delete("pods", "p", gracePeriodSeconds="0")

        async def is_worthless() -> bool:
            return not (await reviewed(admin, bound)).get("authenticated")

        await cluster.eventually(is_worthless)


async def test_a_request_for_a_token_must_make_sense(cluster: Cluster) -> None:
    async with on_the_wire(cluster) as admin:
        await admin.create("serviceaccounts", {"metadata": {"name": "bot"}})
        await admin.create("secrets", {"metadata": {"name": "s"}})
        await admin.create("pods", pod("p"))

        def bound(**reference: str) -> dict[str, Any]:
            return {"spec": {"boundObjectRef": {"apiVersion": "v1", **reference}}}

        for code, body, words in (
            (422, {"spec": {"expirationSeconds": 599}}, "may not specify a duration less than 10 minutes"),
            (422, {"spec": {"expirationSeconds": 1 << 33}}, "may not specify a duration larger than 2^32 seconds"),
            (422, {"metadata": {"name": "other"}, "spec": {}}, "must match the service account name if specified"),
            (404, bound(kind="Pod", name="none"), 'pods "none" not found'),
            (400, bound(kind="Pod", name="p"), "different serviceaccount name"),
            (400, bound(kind="Service", name="p"), "cannot bind token to object of type"),
            (409, bound(kind="Secret", name="s", uid="x"), "does not match the UID in record"),
        ):
            answer = await admin.send("POST", admin.path("serviceaccounts", "bot/token"), body)
            assert answer.status == code, answer.body
            assert words in answer.message
        missing = await admin.send("POST", admin.path("serviceaccounts", "none/token"), {"spec": {}})
        assert (missing.status, missing.message) == (404, 'serviceaccounts "none" not found')
        empty = await admin.send("POST", f"{AUTHENTICATION}/tokenreviews", {"spec": {}})
        assert (empty.status, "token is required" in empty.message) == (400, True)


async def test_service_accounts_can_find_the_keys_that_sign_their_tokens(cluster: Cluster) -> None:
    async with on_the_wire(cluster) as admin:
        await admin.create("serviceaccounts", {"metadata": {"name": "bot"}})
        text = await token(admin)
        async with on_the_wire(cluster, credential=shown(text)) as bot:
            about = (await bot.send("GET", "/.well-known/openid-configuration", accept="*/*")).body
            keys = (await bot.send("GET", "/openid/v1/jwks", accept="*/*")).body["keys"]
        assert about["issuer"] == ISSUER
        assert about["jwks_uri"].endswith("/openid/v1/jwks")
        assert about["response_types_supported"] == ["id_token"]
        assert about["subject_types_supported"] == ["public"]
        header = json.loads(base64.urlsafe_b64decode(text.split(".")[0] + "=="))
        assert header["alg"] in about["id_token_signing_alg_values_supported"]
        assert header["kid"] in [key["kid"] for key in keys]
        async with on_the_wire(cluster, user="jane") as jane:
            assert (await jane.send("GET", "/openid/v1/jwks")).status == 403


async def test_kubectl_makes_tokens_and_says_who_one_is(cluster: Cluster) -> None:
    await cluster.kubectl("create", "serviceaccount", "bot")
    text = (await cluster.kubectl("create", "token", "bot", "--duration=20m")).strip()
    assert claims(text)["exp"] - claims(text)["iat"] == 1200
    named = await cluster.kubectl("auth", "whoami", "--as=bob", "--as-group=team", "-o", "json")
    assert json.loads(named)["status"]["userInfo"] == {"username": "bob", "groups": ["team", "system:authenticated"]}


async def test_each_part_of_another_identity_must_be_allowed(cluster: Cluster) -> None:
    name = cluster.namespace
    acts = f"{name}-acts"
    may = ("impersonate",)
    rules = (
        PolicyRule(verbs=may, apiGroups=("",), resources=("users",), resourceNames=("bob",)),
        PolicyRule(verbs=may, apiGroups=("",), resources=("groups",), resourceNames=("team",)),
        PolicyRule(verbs=may, apiGroups=("authentication.k8s.io",), resources=("userextras/scopes",)),
        PolicyRule(verbs=may, apiGroups=("",), resources=("serviceaccounts",)),
    )
    async with on_the_wire(cluster) as admin:
        await admin.create("serviceaccounts", {"metadata": {"name": "bot"}})
        text = await token(admin)
        await cluster.add(
            ClusterRole(metadata=ObjectMeta(name=acts), rules=rules),
            ClusterRoleBinding(
                metadata=ObjectMeta(name=acts),
                subjects=(Subject(kind="ServiceAccount", name="bot", namespace=name),),
                roleRef=RoleRef(kind="ClusterRole", name=acts, apiGroup="rbac.authorization.k8s.io"),
            ),
        )

    async def act(user: str, *groups: str) -> tuple[int, Any]:
        async with on_the_wire(cluster, user=user, groups=groups, credential=shown(text)) as wire:
            answer = await wire.send("POST", f"{AUTHENTICATION}/selfsubjectreviews", {})
            return answer.status, answer.body["status"]["userInfo"] if answer.status == 201 else answer.message

    async def acts_as_bob() -> bool:
        return (await act("bob"))[0] == 201

    await cluster.eventually(acts_as_bob)
    assert await act("bob", "team") == (201, {"username": "bob", "groups": ["team", "system:authenticated"]})
    groups = ["system:serviceaccounts", "system:serviceaccounts:x", "system:authenticated"]
    assert await act("system:serviceaccount:x:y") == (201, {"username": "system:serviceaccount:x:y", "groups": groups})
    bot = f'User "system:serviceaccount:{name}:bot" cannot impersonate resource'
    for user, more, what in (
        ("eve", (), f'users "eve" is forbidden: {bot} "users" in API group "" at the cluster scope'),
        ("bob", ("system:masters",), f'groups "system:masters" is forbidden: {bot} "groups" in API group "" at the'),
    ):
        status, message = await act(user, *more)
        assert (status, message.startswith(what)) == (403, True), message
    status, message = await act("", "team")
    assert (status, "without impersonating a user" in message) == (400, True)


async def test_anybody_may_ask_for_health_and_version_and_nothing_else(cluster: Cluster) -> None:
    async with on_the_wire(cluster, credential=Credential()) as nobody:
        for path in ("/readyz", "/livez", "/healthz", "/version"):
            assert (await nobody.send("GET", path)).status == 200, path
        for path in ("/api", "/apis", "/metrics", "/api/v1/pods"):
            answer = await nobody.send("GET", path)
            assert answer.status in (401, 403), path
            assert answer.body["kind"] == "Status"
        assert (await nobody.send("POST", "/readyz")).status in (401, 403)


@pytest.mark.filterwarnings("ignore:Sending a large body")
async def test_a_body_is_read_in_the_formats_that_there_are_and_up_to_a_size(cluster: Cluster) -> None:
    async with on_the_wire(cluster) as admin:
        path = admin.path("configmaps")
        yaml = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: from-yaml\ndata:\n  k: v\n"
        answer = await admin.send("POST", path, yaml, content_type="application/yaml")
        assert answer.status == 201, answer.body
        assert answer.body["data"] == {"k": "v"}
        # k8s\0, apiVersion v1, kind ConfigMap; metadata.name p; data k=v
        about = b"\x0a\x0f\x0a\x02v1\x12\x09ConfigMap"
        inner = b"\x0a\x03\x0a\x01p\x12\x06\x0a\x01k\x12\x01v"
        body = b"k8s\x00" + about + b"\x12" + bytes([len(inner)]) + inner
        answer = await admin.send("POST", path, body, content_type=PROTOBUF)
        assert (answer.status, answer.body["metadata"]["name"], answer.body["data"]) == (201, "p", {"k": "v"})
        for broken in (body[:-1], b"k8s\x00\xff", b"no magic", b""):
            answer = await admin.send("POST", path, broken, content_type=PROTOBUF)
            assert (answer.status, answer.reason) == (400, "BadRequest"), broken
        answer = await admin.send("POST", path, b"x", content_type="text/plain")
        assert (answer.status, answer.reason) == (415, "UnsupportedMediaType")
        huge = {"metadata": {"name": "huge"}, "data": {"k": "x" * (3 * 1024 * 1024)}}
        answer = await admin.send("POST", path, huge)
        assert (answer.status, answer.reason) == (413, "RequestEntityTooLarge")
        large = {"metadata": {"name": "large"}, "data": {"k": "x" * (2 * 1024 * 1024)}}
        assert (await admin.send("POST", path, large)).status == 422


async def test_typed_clients_create_every_kind_of_object(cluster: Cluster) -> None:
    """kubectl create sends protobuf for the kinds that it knows."""
    for arguments in (
        ("deployment", "web", "--image=busybox:1", "--replicas=0", "--port=80"),
        ("quota", "small", "--hard=cpu=2,memory=1Gi,pods=5"),
        ("role", "reader", "--verb=get,list", "--resource=pods,deployments.apps", "--resource-name=a"),
        ("rolebinding", "reads", "--role=reader", "--user=jane", "--serviceaccount=default:bot"),
        ("configmap", "settings", "--from-literal=a=1"),
        ("secret", "generic", "hidden", "--from-literal=password=x"),
        ("job", "once", "--image=busybox:1", "--", "true"),
        ("cronjob", "often", "--image=busybox:1", "--schedule=*/5 * * * *"),
        ("poddisruptionbudget", "budget", "--selector=app=web", "--min-available=50%"),
        ("service", "clusterip", "front", "--tcp=80:8080"),
        ("serviceaccount", "bot"),
    ):
        assert "created" in await cluster.kubectl("create", *arguments)

    async def read(*what: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(await cluster.kubectl("get", *what, "-o", "json"))
        return found

    deployment = await read("deployment", "web")
    spec = deployment["spec"]
    assert isinstance(spec, dict)
    assert spec["replicas"] == 0
    assert spec["template"]["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert (await read("quota", "small"))["spec"] == {"hard": {"cpu": "2", "memory": "1Gi", "pods": "5"}}
    rules = (await read("role", "reader"))["rules"]
    assert rules == [
        {"apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"], "verbs": ["get", "list"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["a"], "verbs": ["get", "list"]},
    ]
    assert (await read("secret", "hidden"))["data"] == {"password": "eA=="}
    budget = (await read("pdb", "budget"))["spec"]
    assert isinstance(budget, dict)
    assert budget["minAvailable"] == "50%"
