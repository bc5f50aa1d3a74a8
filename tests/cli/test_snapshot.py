"""`bosket snapshot` fetches what a scheduler knows, says what that is, and writes it whole or not at all."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from bosket.cli.main import main
from bosket.embedded.kubeconfig import admin_kubeconfig, write_kubeconfig
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.recording.object_lists import LISTS
from bosket.scheduler.recording.recorded import load
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import gang, node, pod_group, queue
from bosket.testing.cluster import NOW, state_of

SNAPSHOT = zipped(
    take(state_of([node("n"), queue("q"), pod_group("g"), *gang("g", 2)]), StateOptions(), Configuration(), NOW)
)


@contextmanager
def answering(status: int = 200, body: bytes = SNAPSHOT) -> Iterator[str]:
    """Somebody who answers every question in the same way."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/get-snapshot"
            self.send_response(status if found else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def nowhere() -> str:
    """An address at which nobody answers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def embedded(folder: Path, url: str) -> Path:
    file = folder / "kubeconfig"
    write_kubeconfig(
        file, admin_kubeconfig("https://127.0.0.1:1", b"-----BEGIN CERTIFICATE-----", "t", scheduler_url=url)
    )
    return file


def test_the_file_is_written_and_what_it_holds_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "monday.zip"
    with answering() as url:
        assert main(["snapshot", "--url", url, "-o", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{file}: 1 nodes, 1 queues, 1 podGroups, 2 pods ({len(SNAPSHOT) / 1000:.1f} kB, from {url})",
        f"try: bosket replay {file}",
    ]
    assert file.read_bytes() == SNAPSHOT
    assert file.stat().st_mode & 0o777 == 0o600
    assert load(file).now == NOW
    assert main(["replay", str(file), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["binds"]) == 2


def test_what_the_file_holds_is_data_when_asked_for_as_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s.zip"
    with answering() as url:
        assert (
            main(["snapshot", "--url", f"{url.removeprefix('http://')}/get-snapshot", "-o", str(file), "--json"]) == 0
        )
    assert json.loads(capsys.readouterr().out) == {
        "file": str(file),
        "url": url,
        "bytes": len(SNAPSHOT),
        "objects": {**dict.fromkeys(LISTS, 0), "nodes": 1, "queues": 1, "podGroups": 1, "pods": 2},
    }


@pytest.mark.parametrize("named", [True, False])
def test_the_kubeconfig_of_an_embedded_cluster_says_where(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with answering() as url:
        kubeconfig = embedded(tmp_path, url)
        monkeypatch.setenv("KUBECONFIG", "nowhere" if named else str(kubeconfig))
        assert main(["snapshot", *(("--kubeconfig", str(kubeconfig)) if named else ())]) == 0
    assert (tmp_path / "snapshot.zip").read_bytes() == SNAPSHOT


def test_without_any_hint_the_scheduler_of_this_machine_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with answering() as url:
        monkeypatch.setattr("bosket.cli.local_page.DEFAULT_URL", url)
        assert main(["snapshot"]) == 0


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        (404, b"", "gives no snapshots: it is no scheduler, or its configuration is without the plugin snapshot"),
        (503, b"not yet\n", "answers 503: not yet"),
        (200, b"<html>", "/get-snapshot: JSON is malformed"),
        (200, b"PK nonsense", "/get-snapshot: not a readable zip file"),
        (200, b"{}", "/get-snapshot: rawObjects is missing"),
        (200, b'{"rawObjects": {"pods": 3}}', "/get-snapshot: rawObjects: Expected `array | null`, got `int`"),
    ],
)
def test_what_is_no_snapshot_is_not_written(
    status: int, body: bytes, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "s.zip"
    file.write_bytes(b"of last week")
    with answering(status, body) as url:
        assert main(["snapshot", "--url", url, "-o", str(file)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert f"{url}" in captured.err
    assert sentence in captured.err
    assert [each.name for each in tmp_path.iterdir()] == ["s.zip"]
    assert file.read_bytes() == b"of last week"


def test_nobody_at_home_is_said_with_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = nowhere()
    assert main(["snapshot", "--url", url]) == 1
    assert capsys.readouterr().err == (
        f"bosket: no scheduler answers at {url}: connection refused "
        "(--url names another place; bosket up prints its own)\n"
    )


def test_a_kubeconfig_that_says_nothing_of_a_scheduler_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["snapshot", "--kubeconfig", str(embedded(tmp_path, ""))]) == 1
    assert "doesn't say where the scheduler answers" in capsys.readouterr().err
    assert main(["snapshot", "--kubeconfig", str(tmp_path / "none")]) == 2
    assert "none not found" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with answering() as url:
        assert main(["snapshot", "--url", url, "-o", str(tmp_path / "no" / "s.zip")]) == 2
    assert f"--output {tmp_path / 'no' / 's.zip'}: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://x:port"])
def test_an_address_that_is_none_is_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshot", "--url", url]) == 2
    assert f"--url {url}: not an address such as http://127.0.0.1:8081" in capsys.readouterr().err
