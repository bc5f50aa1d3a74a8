"""The demo's story, played from end to end in virtual time."""

from __future__ import annotations

import pytest

from bosket.cli.demo.command import judge, play
from bosket.cli.demo.display import LineDisplay, print_summary
from bosket.cli.output import CommandError
from bosket.runtime.clock import LoopClock


@pytest.mark.looptime
async def test_every_gang_runs_and_every_promise_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    observation, seconds = await play(8, 60.0, LineDisplay(), LoopClock())
    judge(observation, 60.0)
    assert seconds < 30
    waited = {name: record.waited_seconds or 0.0 for name, record in observation.gangs.items()}
    assert waited["language-pretrain"] < 1
    assert waited["language-finetune"] > 4  # until there were four whole nodes
    assert waited["robotics-policy"] > 3  # until its queue was below its limit
    assert observation.most_gpus == 64
    assert observation.most_gpus_by_team["robotics"] == 16
    print_summary(observation, seconds)
    output = capsys.readouterr().out
    assert "waiting: language-finetune" in output
    assert "language-pretrain  language  5 × 8    40" in output
    assert output.count("\nok ") == 3
    assert "\x1b" not in output


@pytest.mark.looptime
async def test_a_story_that_takes_too_long_ends_with_the_names_of_what_was_left() -> None:
    observation, seconds = await play(8, 3.0, LineDisplay(), LoopClock())
    assert seconds < 4
    with pytest.raises(CommandError, match=r"after 3 s these jobs had not finished: .*language-finetune"):
        judge(observation, 3.0)
