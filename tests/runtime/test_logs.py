"""Logs are readable by people or by machines, keep their fields, and keep no secrets."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from bosket.api.object import ObjectKey
from bosket.runtime.logs import LogFormat, configure_logging


@pytest.fixture(autouse=True)
def _restore_root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def logged(format: LogFormat, message: str, *arguments: object, level: int = logging.INFO, **options: Any) -> str:
    stream = io.StringIO()
    configure_logging(format, stream=stream)
    logging.getLogger("bosket.services.binder").log(level, message, *arguments, **options)
    return stream.getvalue()


def test_a_human_line_has_time_level_logger_message_and_fields() -> None:
    line = logged("human", "bound %s", "it", extra={"pod": ObjectKey("ns", "p"), "why": "two words", "n": 3})
    time, rest = line.split(" ", 1)
    assert time.endswith("Z")
    assert rest == 'INFO    bosket.services.binder: bound it pod=ns/p why="two words" n=3\n'


def test_a_json_line_is_one_object_with_the_same_content() -> None:
    line = logged("json", "bound %s", "it", extra={"pod": ObjectKey("ns", "p"), "n": 3, "by": logging})
    entry = json.loads(line)
    assert line.count("\n") == 1
    assert entry["message"] == "bound it"
    assert (entry["level"], entry["logger"], entry["n"]) == ("info", "bosket.services.binder", 3)
    assert "module" in entry["by"], "what JSON doesn't know is written as text"


def test_a_field_never_hides_the_line_s_own() -> None:
    entry = json.loads(logged("json", "really", extra={"level": "fake", "time": 0}))
    assert (entry["level"], entry["level_"], entry["time_"]) == ("info", "fake", 0)


@pytest.mark.parametrize("format", ["human", "json"])
def test_a_message_stays_on_one_line_and_a_traceback_is_kept(format: LogFormat) -> None:
    assert logged(format, "first\nsecond").count("\n") == 1
    try:
        raise KeyError("lost")
    except KeyError:
        text = logged(format, "failed", exc_info=True)
    assert "Traceback" in text
    assert "KeyError: 'lost'" in text


@pytest.mark.parametrize("format", ["human", "json"])
def test_secrets_are_blanked_in_fields_messages_and_tracebacks(format: LogFormat) -> None:
    secret = "eyJhbGciOi.JSUzI1NiJ9"
    key = f"-----BEGIN EC PRIVATE KEY-----\n{secret}\n-----END EC PRIVATE KEY-----"
    assert secret not in logged(format, "x", extra={"token": secret, "clientKeyData": secret, "password": secret})
    assert secret not in logged(format, "sent Authorization: Bearer %s", secret)
    assert secret not in logged(format, "x", extra={"body": key})
    try:
        raise ValueError(f"Bearer {secret}")
    except ValueError:
        assert secret not in logged(format, "x", exc_info=True)


def test_configuring_twice_does_not_write_twice_and_the_level_holds() -> None:
    configure_logging("human", stream=io.StringIO())
    assert logged("human", "once").count("once") == 1
    assert logged("human", "quiet", level=logging.DEBUG) == ""
