"""`bosket top`: queues, jobs and events on one screen, renewed; once in a pipe."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bosket.cli import top
from bosket.cli.cluster_source import SourceFlags
from bosket.cli.main import main
from bosket.cli.output import CommandError
from tests.cli.everyday import as_terminal, printed, recorded


def test_once_it_shows_all_there_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "top", "--snapshot", recorded(tmp_path))
    assert "16 of 20 GPUs used" in text
    waiting, running = text.index("vision/depth"), text.index("default/pretrain")
    assert waiting < running, "jobs that wait come first"
    assert "\x1b[" not in text


def test_as_data_it_has_the_answers_of_the_other_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = recorded(tmp_path)
    frame = json.loads(printed(capsys, "top", "--snapshot", file, "--json"))
    assert frame["queues"] == json.loads(printed(capsys, "queues", "--snapshot", file, "--json"))
    assert frame["jobs"]["counts"] == json.loads(printed(capsys, "jobs", "--snapshot", file, "--json"))["counts"]


@pytest.mark.parametrize("height", [12, 24, 60])
def test_what_is_shown_fits_the_screen_and_says_where_the_rest_is(height: int) -> None:
    sections = tuple([f"{name} {number}" for number in range(30)] for name in ("queue", "job", "event"))
    shown = top.fitted(sections, height)  # type: ignore[arg-type]
    assert len(shown) <= height
    assert "queue 0" in shown
    assert "job 0" in shown
    assert any(str(line).endswith("more lines: bosket jobs") for line in shown)


def test_short_sections_leave_their_room_to_others() -> None:
    shown = top.fitted((["queue"], [f"job {number}" for number in range(15)], ["event"]), 20)
    assert "job 14" in shown
    assert "event" in shown


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (160, 50)])
def test_the_screen_is_renewed_and_goes_on_when_the_server_does_not_answer_for_a_while(
    columns: int, lines: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_terminal(monkeypatch, columns)
    monkeypatch.setenv("LINES", str(lines))
    given, frame_of = SourceFlags(snapshot=Path(recorded(tmp_path))), top._frame
    looks = 0

    def look(flags: SourceFlags, *, says_unknown: bool = True) -> top.Frame:
        nonlocal looks
        looks += 1
        if looks == 2:
            raise CommandError("the server is away")
        return frame_of(given, says_unknown=says_unknown)

    def sleep(seconds: float) -> None:
        if looks == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(top, "_frame", look)
    monkeypatch.setattr("bosket.cli.top.time.sleep", sleep)
    with pytest.raises(SystemExit, match="130"):
        main(["top"])
    text = capsys.readouterr().out
    assert text.count("Ctrl-C ends it") == 3
    assert text.count("the server is away") == 1
    assert "QUEUE" in text
    assert "JOB" in text
