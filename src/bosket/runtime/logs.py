"""Logs through the standard library, as lines for people or as JSON objects for machines.

Code logs with `logging.getLogger(__name__)` and puts what a reader might search for into `extra`; a program calls
`configure_logging` once. In both formats the fields of `extra` are kept, and credentials are not: fields whose names
speak of secrets, and bearer tokens anywhere in the text, are blanked out.
"""

from __future__ import annotations

import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO

import msgspec

LogFormat = Literal["human", "json"]

_BLANK: Final = "[redacted]"
_SECRET_NAME: Final = re.compile(
    r"token|passw|secret_?(key|data|value)|authorization|credential|private_?key|key_?(pem|data)", re.IGNORECASE
)
_SECRET_TEXT: Final = re.compile(
    r"(?P<bearer>bearer\s+)[\w.~+/=-]+|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.IGNORECASE | re.DOTALL,
)
#: What a record has before anybody adds fields to it.
_OWN_ATTRIBUTES: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_BARE_VALUE: Final = re.compile(r"[^\s\"'=\\]+")


def configure_logging(format: LogFormat = "human", level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send all logs of the process to `stream` (standard error unless given), and to nothing else."""
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else HumanFormatter())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    # One line per request or selector would drown everything else.
    for chatty in ("aiohttp.access", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


class HumanFormatter(logging.Formatter):
    """`time LEVEL logger: message key=value …` on one line; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_plain(value)}" for name, value in _fields(record).items())
        message = _without_secrets(record.getMessage()).replace("\n", "\\n")
        line = f"{_time(record)} {record.levelname:<7} {record.name}: {message}{fields}"
        trace = _traceback(self, record)
        return f"{line}\n{trace}" if trace else line


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, the fields of `extra`, and an `exception` if any."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _without_secrets(record.getMessage()),
        }
        for name, value in _fields(record).items():
            line[f"{name}_" if name in line or name == "exception" else name] = value
        trace = _traceback(self, record)
        if trace:
            line["exception"] = trace
        return msgspec.json.encode(line, enc_hook=str).decode()


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """What the caller gave as `extra`."""
    return {
        name: _BLANK if _SECRET_NAME.search(name) else _without_secrets(value) if isinstance(value, str) else value
        for name, value in vars(record).items()
        if name not in _OWN_ATTRIBUTES
    }


def _plain(value: object) -> str:
    text = str(value)
    return text if _BARE_VALUE.fullmatch(text) else msgspec.json.encode(text).decode()


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info and record.exc_info[0] is not None:
        parts.append(formatter.formatException(record.exc_info))
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return _without_secrets("\n".join(parts))


def _without_secrets(text: str) -> str:
    return _SECRET_TEXT.sub(lambda match: (match["bearer"] or "") + _BLANK, text)
