"""Kubeconfig files: what they mean, and what is said of those that can't be used."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from bosket.kube.carrier import ClusterConfig
from bosket.kube.credentials import Credential, bearer
from bosket.kube.errors import ConfigError
from bosket.kube.kubeconfig import find, in_cluster, load

PEM = b"-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"
KEY = b"-----BEGIN PRIVATE KEY-----\nMA==\n-----END PRIVATE KEY-----\n"


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the home directory nor the environment of whoever runs the tests counts."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def kubeconfig(
    cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, context: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "ctx",
        "preferences": {},
        "clusters": [{"name": "c", "cluster": {"server": "https://one:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": {"token": "t"} if user is None else user}],
        "contexts": [{"name": "ctx", "context": {"cluster": "c", "user": "u", **(context or {})}}],
    }


def written(path: Path, content: dict[str, Any] | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


async def credential_of(config: ClusterConfig) -> Credential:
    return await config.credentials.current()


async def test_the_current_context_names_server_user_and_namespace(tmp_path: Path) -> None:
    config = load(written(tmp_path / "config", kubeconfig(context={"namespace": "team"})))
    assert (config.server, config.namespace) == ("https://one:6443", "team")
    assert await credential_of(config) == Credential(bearer("t"))
    assert config.verify_server


async def test_another_context_can_be_asked_for(tmp_path: Path) -> None:
    content = kubeconfig()
    content["clusters"].append({"name": "d", "cluster": {"server": "https://two/"}})
    content["contexts"].append({"name": "other", "context": {"cluster": "d"}})
    config = load(written(tmp_path / "config", content), "other")
    assert (config.server, config.namespace) == ("https://two", "default")
    assert await credential_of(config) == Credential()


async def test_inline_certificates_are_decoded_and_win_over_files(tmp_path: Path) -> None:
    config = load(
        written(
            tmp_path / "config",
            kubeconfig(
                {
                    "certificate-authority-data": encoded(PEM),
                    "certificate-authority": "missing",
                    "tls-server-name": "n",
                },
                {"client-certificate-data": encoded(PEM), "client-key-data": encoded(KEY)},
            ),
        )
    )
    assert config.certificate_authority == PEM
    assert config.tls_server_name == "n"
    certificate = (await credential_of(config)).certificate
    assert certificate is not None
    assert (certificate.chain, certificate.key) == (PEM, KEY)


async def test_paths_are_relative_to_the_file_they_stand_in(tmp_path: Path) -> None:
    for name, content in (("ca.crt", PEM), ("me.crt", PEM), ("me.key", KEY), ("token", b"from-file")):
        (tmp_path / name).write_bytes(content)
    config = load(
        written(
            tmp_path / "sub" / "config",
            kubeconfig(
                {"certificate-authority": "../ca.crt"},
                {"client-certificate": "../me.crt", "client-key": str(tmp_path / "me.key"), "tokenFile": "../token"},
            ),
        )
    )
    assert config.certificate_authority == PEM
    found = await credential_of(config)
    assert found.authorization == "Bearer from-file"
    assert found.certificate is not None


async def test_several_files_are_merged_and_the_first_to_define_something_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = {"current-context": "mine", "contexts": [{"name": "mine", "context": {"cluster": "c", "user": "u"}}]}
    second = kubeconfig({"server": "https://second"})
    third = kubeconfig({"server": "https://third"}, {"token": "third"})
    third["users"].append({"name": "extra", "user": {}})
    paths = [
        written(tmp_path / "1", first),
        tmp_path / "missing",
        written(tmp_path / "2", second),
        written(tmp_path / "3", third),
    ]
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, paths)))
    config = load()
    assert config.server == "https://second"
    assert await credential_of(config) == Credential(bearer("t"))


async def test_the_home_directory_is_looked_into_last(tmp_path: Path) -> None:
    written(tmp_path / "home" / ".kube" / "config", kubeconfig())
    assert load().server == "https://one:6443"


async def test_a_name_and_password_and_impersonation(tmp_path: Path) -> None:
    user = {
        "username": "me",
        "password": "pw",
        "as": "bob",
        "as-uid": "7",
        "as-groups": ["a", "b"],
        "as-user-extra": {"scope": ["x"]},
    }
    config = load(written(tmp_path / "config", kubeconfig(user=user)))
    assert (await credential_of(config)).authorization == "Basic bWU6cHc="
    assert config.impersonation == (
        ("Impersonate-User", "bob"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-scope", "x"),
    )


async def test_a_cluster_may_go_unverified_through_a_proxy_without_compression(tmp_path: Path) -> None:
    cluster = {"insecure-skip-tls-verify": True, "proxy-url": "http://proxy:1", "disable-compression": True}
    config = load(written(tmp_path / "config", kubeconfig(cluster)))
    assert not config.verify_server
    assert config.proxy_url == "http://proxy:1"
    assert not config.compression


async def test_an_exec_plugin_beside_the_file_is_run_and_told_of_the_cluster(tmp_path: Path) -> None:
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "made"}}
    script = tmp_path / "bin" / "login"
    script.parent.mkdir()
    note = f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path / "told"}'
    script.write_text(f"#!/bin/sh\n{note}\n[ \"$1$WHO\" = getme ] && echo '{json.dumps(answer)}'\n")
    script.chmod(0o755)
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./bin/login",
        "args": ["get"],
        "env": [{"name": "WHO", "value": "me"}],
        "provideClusterInfo": True,
        "interactiveMode": "Never",
    }
    cluster = {
        "certificate-authority-data": encoded(PEM),
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}],
    }
    config = load(written(tmp_path / "config", kubeconfig(cluster, {"exec": plugin})))
    assert await credential_of(config) == Credential(bearer("made"))
    told = json.loads((tmp_path / "told").read_text())["spec"]["cluster"]
    assert told == {
        "server": "https://one:6443",
        "certificate-authority-data": encoded(PEM),
        "config": {"audience": "a"},
    }


EXEC = {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("a: [", "not a YAML document"),
        ("[]", r"Expected `object`, got `array`"),
        ({"kind": "Pod"}, "kind is 'Pod', a kubeconfig's is 'Config'"),
        ({}, "current-context is not set"),
        ({**kubeconfig(), "current-context": "nope"}, "there is no context 'nope'; there are: ctx"),
        (
            {**kubeconfig(), "clusters": []},
            r"contexts\[ctx\]\.context\.cluster is 'c', which is not among the clusters",
        ),
        ({**kubeconfig(), "users": None}, r"contexts\[ctx\]\.context\.user is 'u', which is not among the users"),
        (
            {**kubeconfig(), "clusters": [{"name": "c", "cluster": {}}]},
            r"missing required field `server`.*clusters\[0\]",
        ),
        ({**kubeconfig(), "contexts": [{"name": "ctx", "context": {}}]}, r"missing required field `cluster`.*contexts"),
        (kubeconfig({"server": 5}), r"Expected `str`, got `int` - at `\$\.clusters\[0\]\.cluster\.server`"),
        (kubeconfig({"server": "one:6443"}), r"clusters\[c\]\.cluster\.server is 'one:6443', which is not an http"),
        (
            kubeconfig({"certificate-authority": "no.crt"}),
            r"clusters\[c\]\.cluster\.certificate-authority: can't read .*no\.crt: No such",
        ),
        (kubeconfig({"certificate-authority-data": "%%"}), r"cluster\.certificate-authority-data is not base64"),
        (kubeconfig({"certificate-authority-data": encoded(b"x")}), r"certificate-authority-data is not PEM"),
        (
            kubeconfig({"certificate-authority-data": encoded(PEM), "insecure-skip-tls-verify": True}),
            r"insecure-skip-tls-verify is true, but a certificate authority",
        ),
        (
            kubeconfig(user={"client-key-data": encoded(KEY)}),
            r"users\[u\]\.user\.client-certificate is missing, though client-key",
        ),
        (kubeconfig(user={"client-certificate-data": encoded(PEM)}), r"users\[u\]\.user\.client-key is missing"),
        (
            kubeconfig(user={"auth-provider": {"name": "gcp"}}),
            r"users\[u\]\.user\.auth-provider is not supported any more",
        ),
        (kubeconfig(user={"exec": {"command": "x"}}), r"missing required field `apiVersion`.*users\[0\]\.user\.exec"),
        (kubeconfig(user={"exec": {**EXEC, "command": ""}}), r"users\[u\]\.user\.exec\.command is empty"),
        (kubeconfig(user={"exec": {**EXEC, "apiVersion": "v0"}}), r"exec\.apiVersion is 'v0', not one of"),
        (kubeconfig(user={"exec": {**EXEC, "interactiveMode": "Always"}}), r"exec\.interactiveMode is 'Always'"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_field(tmp_path: Path, content: Any, complaint: str) -> None:
    path = written(tmp_path / "my-config", content)
    with pytest.raises(ConfigError, match=rf"(?s)my-config: .*{complaint}"):
        load(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no kubeconfig: .*/absent not found"):
        load(tmp_path / "absent")
    with pytest.raises(ConfigError, match=r"no kubeconfig: .*/\.kube/config not found"):
        load()


# --- in a cluster


def in_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str = "10.0.0.1") -> Path:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("pod-token")
    (account / "ca.crt").write_bytes(PEM)
    (account / "namespace").write_text("kai-scheduler\n")
    return account


async def test_a_pod_talks_as_its_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = in_cluster(in_a_pod(tmp_path, monkeypatch))
    assert (config.server, config.namespace) == ("https://10.0.0.1:443", "kai-scheduler")
    assert config.certificate_authority == PEM
    assert (await credential_of(config)).authorization == "Bearer pod-token"


def test_an_ipv6_address_gets_its_brackets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_cluster(in_a_pod(tmp_path, monkeypatch, "fd00::1")).server == "https://[fd00::1]:443"


def test_outside_of_a_cluster_that_is_said() -> None:
    with pytest.raises(ConfigError, match="not in a cluster: KUBERNETES_SERVICE_HOST"):
        in_cluster()


def test_a_service_account_without_authority_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = in_a_pod(tmp_path, monkeypatch)
    (account / "ca.crt").unlink()
    with pytest.raises(ConfigError, match=r"ca\.crt"):
        in_cluster(account)


def test_a_pod_with_a_kubeconfig_uses_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = in_a_pod(tmp_path, monkeypatch)
    assert find(service_account=account).server == "https://10.0.0.1:443"
    monkeypatch.setenv("KUBECONFIG", str(written(tmp_path / "config", kubeconfig())))
    assert find().server == "https://one:6443"
    monkeypatch.delenv("KUBECONFIG")
    with pytest.raises(ConfigError, match="absent"):
        find(tmp_path / "absent")
