"""Token files and exec plugins."""

from __future__ import annotations

import asyncio
import json
import stat
import traceback
from pathlib import Path
from typing import Any

import pytest

from bosket.api.time import format_time
from bosket.kube.credentials import (
    Certificate,
    Credential,
    ExecCommand,
    ExecPlugin,
    FixedCredential,
    TokenFile,
    basic,
    bearer,
)
from bosket.kube.errors import ConfigError

VERSION = "client.authentication.k8s.io/v1"


class Time:
    """Seconds since whenever, moved by hand."""

    def __init__(self) -> None:
        self.seconds = 1_700_000_000.0

    def __call__(self) -> float:
        return self.seconds


async def test_a_fixed_credential_has_no_other() -> None:
    source = FixedCredential(Credential(basic("a", "b")))
    assert (await source.current()).authorization == "Basic YTpi"
    assert await source.after_refusal(await source.current()) is None


def test_secrets_are_not_shown_when_a_credential_is_printed() -> None:
    shown = repr(Credential(bearer("t0ps3cret"), Certificate(b"chain", b"k3y")))
    assert "t0ps3cret" not in shown
    assert "k3y" not in shown


# --- token file


async def test_a_token_file_is_read_again_every_minute(tmp_path: Path) -> None:
    path, time = tmp_path / "token", Time()
    path.write_text("one\n")
    source = TokenFile(path, now=time)
    assert (await source.current()).authorization == "Bearer one"
    path.write_text("two\n")
    time.seconds += 59
    assert (await source.current()).authorization == "Bearer one"
    time.seconds += 1
    assert (await source.current()).authorization == "Bearer two"


async def test_a_refused_token_is_replaced_by_a_newer_one_if_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    source = TokenFile(path)
    refused = await source.current()
    assert await source.after_refusal(refused) is None
    path.write_text("two")
    assert await source.after_refusal(refused) == Credential(bearer("two"))


async def test_a_token_file_that_is_gone_for_a_moment_does_no_harm(tmp_path: Path) -> None:
    path, time = tmp_path / "token", Time()
    path.write_text("one")
    source = TokenFile(path, now=time)
    await source.current()
    path.unlink()
    time.seconds += 100
    assert (await source.current()).authorization == "Bearer one"


async def test_a_token_file_that_is_missing_or_empty_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing: can't read the token: No such file"):
        await TokenFile(tmp_path / "missing").current()
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(ConfigError, match="empty: holds no token"):
        await TokenFile(tmp_path / "empty").current()


# --- exec plugin


def credential(**status: Any) -> str:
    return json.dumps({"apiVersion": VERSION, "kind": "ExecCredential", "status": status})


def plugin(tmp_path: Path, script: str, *, cluster: dict[str, Any] | None = None, **env: str) -> ExecCommand:
    """A plugin that is a shell script; it notes each run in `runs`."""
    path = tmp_path / "plugin"
    path.write_text(f"#!/bin/sh\necho run >> {tmp_path / 'runs'}\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return ExecCommand("config: users[u].user.exec", str(path), VERSION, ("arg",), env, "get it from us", cluster)


def runs(tmp_path: Path) -> int:
    return len((tmp_path / "runs").read_text().splitlines())


async def test_a_plugin_is_told_what_it_needs_and_its_token_is_used(tmp_path: Path) -> None:
    script = f"echo \"$1 $MORE $KUBERNETES_EXEC_INFO\" > {tmp_path / 'told'}; echo '{credential(token='t1')}'"
    source = ExecPlugin(plugin(tmp_path, script, cluster={"server": "https://x"}, MORE="more"))
    assert await source.current() == Credential(bearer("t1"))
    arg, more, told = (tmp_path / "told").read_text().split(" ", 2)
    assert (arg, more) == ("arg", "more")
    assert json.loads(told) == {
        "apiVersion": VERSION,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://x"}},
    }


async def test_it_is_run_once_for_many_requests_and_again_shortly_before_its_credential_expires(tmp_path: Path) -> None:
    time = Time()
    output = credential(token="t", expirationTimestamp=format_time(time.seconds + 3600))
    source = ExecPlugin(plugin(tmp_path, f"echo '{output}'"), now=time)
    await asyncio.gather(*[source.current() for _ in range(10)])
    assert runs(tmp_path) == 1
    time.seconds += 3600 - ExecPlugin.EXPIRY_MARGIN_SECONDS - 1
    await source.current()
    assert runs(tmp_path) == 1
    time.seconds += 1
    await source.current()
    assert runs(tmp_path) == 2


async def test_a_refusal_runs_it_once_for_all_who_were_refused(tmp_path: Path) -> None:
    time = Time()
    script = f"n=$(wc -l < {tmp_path / 'runs'}); echo '{credential(token='tN')}' | sed s/tN/t$((n))/"
    source = ExecPlugin(plugin(tmp_path, script), now=time)
    refused = await source.current()
    time.seconds += 60
    others = await asyncio.gather(*[source.after_refusal(refused) for _ in range(5)])
    assert others == [Credential(bearer("t2"))] * 5
    time.seconds += 60
    assert await source.after_refusal(refused) == Credential(bearer("t2")), "a straggler takes the newer one"
    assert runs(tmp_path) == 2


async def test_a_plugin_that_gives_the_same_again_is_not_run_for_every_refusal(tmp_path: Path) -> None:
    time = Time()
    source = ExecPlugin(plugin(tmp_path, f"echo '{credential(token='t')}'"), now=time)
    refused = await source.current()
    time.seconds += 60
    for _ in range(3):
        assert await source.after_refusal(refused) is None
    assert runs(tmp_path) == 2


async def test_a_plugin_may_give_a_client_certificate(tmp_path: Path) -> None:
    output = credential(clientCertificateData="CERT", clientKeyData="KEY")
    found = await ExecPlugin(plugin(tmp_path, f"echo '{output}'")).current()
    assert found == Credential(None, Certificate(b"CERT", b"KEY"))


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("echo sorry >&2; exit 3", "ended with status 3: 'sorry'"),
        ("echo hello", "printed no ExecCredential: JSON is malformed"),
        (r"""printf '{"kind": "\377"}'""", "printed no ExecCredential: not UTF-8"),
        ("echo '{}'", "printed kind '', apiVersion ''; asked for was ExecCredential"),
        (f"echo '{credential()}'", "printed neither token nor client certificate"),
        (f"echo '{credential(token='t', expirationTimestamp='soon')}'", "status.expirationTimestamp is not a time"),
    ],
)
async def test_a_plugin_that_fails_is_named_with_what_it_said(tmp_path: Path, script: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=rf"config: users\[u\]\.user\.exec: .*plugin:? {complaint}"):
        await ExecPlugin(plugin(tmp_path, script)).current()


@pytest.mark.parametrize(
    ("output", "field"),
    [
        (
            credential(token="s3cret", expirationTimestamp=1700000000),
            "Expected `str | null`, got `int` - at `$.status.expirationTimestamp`",
        ),
        (credential(token=["s3cret"]), "Expected `str | null`, got `array` - at `$.status.token`"),
        (credential(token="s3cret") + "}", "JSON is malformed"),
        (credential(token="t", expirationTimestamp="s3cret"), "status.expirationTimestamp is not a time"),
    ],
)
async def test_what_a_plugin_printed_is_never_shown_for_it_holds_a_token(
    tmp_path: Path, output: str, field: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        await ExecPlugin(plugin(tmp_path, f"echo '{output}'")).current()
    assert field in str(caught.value)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


async def test_a_plugin_that_is_not_installed_says_how_to_get_it(tmp_path: Path) -> None:
    command = plugin(tmp_path, "")
    (tmp_path / "plugin").unlink()
    with pytest.raises(ConfigError, match=r"can't run .*plugin': No such file or directory \(get it from us\)"):
        await ExecPlugin(command).current()


async def test_a_plugin_that_hangs_is_ended(tmp_path: Path) -> None:
    command = plugin(tmp_path, "exec sleep 60")
    impatient = ExecCommand(command.where, command.command, VERSION, timeout_seconds=0.05)
    with pytest.raises(ConfigError, match=r"took more than 0\.05 s"):
        await ExecPlugin(impatient).current()
