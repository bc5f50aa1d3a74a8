"""Moments of a flight recording, as command lines name them: --at 03:00 --recording FOLDER."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bosket.cli.output import UsageError, complain

if TYPE_CHECKING:
    from bosket.scheduler.recording.flight.reader import FlightRecording, Moment

_DAY_SECONDS = 86400.0
#: What `bosket up` adds to the name of its kubeconfig.
FOLDER_SUFFIX = ".recording"


def parse_moment(text: str, now: float, option: str = "--at") -> float:
    """Epoch seconds of a time of day (the last one), a duration (so long ago) or a date with time."""
    from bosket.api.time import InvalidDuration, InvalidTime, parse_long_duration, parse_time

    for format in ("%H:%M:%S", "%H:%M"):
        try:
            of_day = time.strptime(text, format)
        except ValueError:
            continue
        today = time.localtime(now)
        clock = (of_day.tm_hour, of_day.tm_min, of_day.tm_sec)
        found = time.mktime((*today[:3], *clock, 0, 0, -1))
        return found if found <= now else time.mktime((*today[:2], today[2] - 1, *clock, 0, 0, -1))
    try:
        return now - parse_long_duration(text)
    except InvalidDuration:
        pass
    try:
        return parse_time(text)
    except InvalidTime:
        raise UsageError(
            f"{option} {text}: neither a time of day such as 03:00, nor how long ago, such as 30m or 2d, nor a time "
            f"such as 2026-01-02T03:04:05Z"
        ) from None


def clock(seconds: float) -> str:
    """A moment as people read it, in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def open_recording(folder: Path | None, kubeconfig: Path | None = None, shard: str = "") -> FlightRecording:
    """The recording in the folder, or in the one that `bosket up` keeps beside the kubeconfig."""
    from bosket.scheduler.recording.flight.frames import SUFFIX
    from bosket.scheduler.recording.flight.reader import FlightRecording, RecordingError

    if folder is None:
        folder = _beside(kubeconfig)
    if folder.is_dir() and not any(folder.glob(f"*{SUFFIX}")):
        folder = _of_one_scheduler(folder, SUFFIX, shard)
    try:
        return FlightRecording(folder, complain)
    except RecordingError as error:
        raise UsageError(str(error)) from error


def open_moment(folder: Path | None, at: str | None, kubeconfig: Path | None = None, shard: str = "") -> Moment:
    """The last cycle before a time; by default the last one that is recorded."""
    from bosket.scheduler.recording.flight.reader import RecordingError

    when = parse_moment(at, time.time()) if at is not None else time.time()
    recording = open_recording(folder, kubeconfig, shard)
    try:
        return recording.at(when)
    except RecordingError as error:
        raise UsageError(str(error)) from error


def _beside(kubeconfig: Path | None) -> Path:
    given = kubeconfig or Path(os.environ.get("KUBECONFIG", "").split(os.pathsep)[0] or "~/.kube/config").expanduser()
    folder = given.with_name(f"{given.name}{FOLDER_SUFFIX}")
    if not folder.is_dir():
        raise UsageError(
            f"--recording names the folder of a recording (bosket run scheduler --record FOLDER writes one); there is "
            f"none beside the kubeconfig, at {folder}"
        )
    return folder


def _of_one_scheduler(folder: Path, suffix: str, shard: str) -> Path:
    """The part of a recording that one shard's scheduler wrote."""
    parts = sorted(each for each in folder.iterdir() if each.is_dir() and any(each.glob(f"*{suffix}")))
    chosen = [each for each in parts if not shard or each.name == shard or each.name.endswith(f"-{shard}")]
    if len(chosen) > 1:
        names = ", ".join(each.name for each in chosen)
        raise UsageError(f"{folder}: several schedulers were recorded ({names}); --shard chooses one")
    if parts and not chosen:
        names = ", ".join(each.name for each in parts)
        raise UsageError(f"--shard {shard}: not in {folder}, which has {names}")
    return chosen[0] if chosen else folder
