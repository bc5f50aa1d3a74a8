"""Profiles go to a Pyroscope server while a process runs; what is in the way is said in a sentence."""

from __future__ import annotations

import gzip
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bosket.runtime.pyroscope_push import PyroscopeError, push_profiles

#: Computes until it is stopped. The agent is the process' own, so that this one must not have it.
PROGRAM = """
import sys, threading
from bosket.runtime.pyroscope_push import push_profiles
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
def compute_shares():
    while not ended.is_set():
        sum(range(1000))
with push_profiles("kai-scheduler", sys.argv[1], upload_seconds=1):
    compute_shares()
"""


def test_profiles_name_the_application_and_the_functions_that_it_was_in() -> None:
    pushed: list[bytes] = []
    named = threading.Event()

    class Ingest(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path == "/push.v1.PusherService/Push":
                pushed.append(gzip.decompress(body))
                if any(b"compute_shares" in _unpacked(each) for each in pushed):
                    named.set()
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Ingest)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        command = [sys.executable, "-c", PROGRAM, f"http://127.0.0.1:{server.server_port}"]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            assert named.wait(60)
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(60) == 0
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
    assert all(b"kai-scheduler" in each for each in pushed)


def _unpacked(message: bytes) -> bytes:
    """The message, and the profile in it, which is compressed again."""
    start = message.find(b"\x1f\x8b")
    return message if start < 0 else gzip.decompress(message[start:])


def test_where_no_address_is_given_nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyroscope", None)
    with push_profiles("kai-scheduler", ""):
        pass


def test_without_the_extra_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyroscope", None)
    with (
        pytest.raises(PyroscopeError, match=r"isn't installed: pip install bosket\[pyroscope\]"),
        push_profiles("kai-scheduler", "http://pyroscope:4040"),
    ):
        pass


@pytest.mark.parametrize("address", ["pyroscope:4040", "ftp://pyroscope", "http://"])
def test_what_is_no_url_is_refused(address: str) -> None:
    with (
        pytest.raises(PyroscopeError, match="is no URL of a Pyroscope server"),
        push_profiles("kai-scheduler", address),
    ):
        pass
