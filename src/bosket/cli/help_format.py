"""How help is laid out: texts flow into the width of the terminal, wherever the lines of a docstring end.

Boxes on a terminal; in a pipe, plain lines of at most 80 characters.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import TYPE_CHECKING, Any, Final

from cyclopts.help import DefaultFormatter, PlainFormatter
from cyclopts.help.inline_text import InlineText
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyclopts import App
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

_PIPE_WIDTH: Final = 80
_BLANK_LINE: Final = re.compile(r"\n\s*\n")


#: Groups of flags of `bosket run`, by the service that they concern.
_SERVICE_GROUPS: Final = {
    "admission": "Admission",
    "binder": "Binder",
    "grove-admission": "Grove",
    "grove-operator": "Grove",
    "grove-backends": "Grove",
    "grove-initc": "Grove init container",
    "node-scale-adjuster": "Node scale adjuster",
    "numa-exporter": "NUMA exporter",
    "operator": "Operator",
    "podgroup-controller": "Pod group controller",
    "podgrouper": "Pod grouper",
    "queue-controller": "Queue controller",
    "scheduler": "Scheduler",
}
#: Titles of panels that aren't shown this time.
_left_out: set[str] = set()


def leave_out_other_services(tokens: Sequence[str]) -> None:
    """Before help for `bosket run SERVICE…`: leaves out the flags that concern other services."""
    _left_out.clear()
    named = [token for token in tokens[1:] if token in _SERVICE_GROUPS]
    if "run" in tokens[:1] and named and not {"--help", "-h"}.isdisjoint(tokens):
        _left_out.update(set(_SERVICE_GROUPS.values()) - {_SERVICE_GROUPS[name] for name in named})


def add_long_description(app: App, tokens: Sequence[str]) -> None:
    """Before help for a command: adds what its docstring says beyond the first paragraph.

    Commands are registered with their purpose alone, so that listing them imports none.
    """
    wanted = [token for token in tokens if not token.startswith("-")]
    if {"--help", "-h"}.isdisjoint(tokens) or not wanted:
        return
    command = app.parse_commands(wanted)[1][-1]
    if command is app or command.default_command is None:
        return
    told = (inspect.getdoc(command.default_command) or "").partition("\nParameters\n---")[0]
    more = _paragraphs(told)[1:]
    if more:
        command.help = "\n\n".join([command.help, *more])


class TerminalHelp(DefaultFormatter):
    """Boxes."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        if panel.title in _left_out:
            return
        entries = [
            entry.copy(description=_flowing(entry.description), default=_telling_default(entry))
            for entry in panel.entries
        ]
        super().__call__(console, options, panel.copy(entries=entries))

    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:
        super().render_description(console, options, _flowing(description))
        if description:
            console.print()


class PipeHelp(PlainFormatter):
    """Plain lines: `--name VALUE: what it means`, the lines that follow indented."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        if panel.title not in _left_out:
            super().__call__(console, options, panel)

    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:
        del options
        text = _plain(description, console)
        if text:
            for paragraph in _paragraphs(text):
                console.print(textwrap.fill(paragraph, _PIPE_WIDTH), highlight=False, markup=False, soft_wrap=True)
                console.print()

    def _format_parameter_entry(self, options: tuple[str, ...], desc: str, console: Console, entry: HelpEntry) -> None:
        notes = [
            f"[choices: {', '.join(entry.choices)}]" if entry.choices else "",
            f"[default: {default}]" if (default := _telling_default(entry)) is not None else "",
            "[required]" if entry.required else "",
        ]
        self._print_entry(", ".join(options), " ".join(filter(None, (desc, *notes))), console)

    def _format_command_entry(
        self, names: tuple[str, ...], shorts: tuple[str, ...], desc: str, console: Console
    ) -> None:
        self._print_entry(", ".join((*names, *shorts)), desc, console)

    def _print_entry(self, name: str, text: str, console: Console) -> None:
        line = f"{name}: {' '.join(text.split())}" if text else name
        indented = textwrap.fill(
            line,
            _PIPE_WIDTH,
            initial_indent=self.indent,
            subsequent_indent=self.indent * 3,
            break_long_words=False,
            break_on_hyphens=False,
        )
        console.print(indented, highlight=False, markup=False, soft_wrap=True)


def _telling_default(entry: HelpEntry) -> str | None:
    """The default as it is shown; None for one that says no more than that the option isn't given."""
    return None if entry.default in ("()", '""', "False", "None") else entry.default


def _flowing(description: Any) -> Any:
    """The same text, its line ends taken out but those between paragraphs."""
    if isinstance(description, InlineText) and isinstance(description.primary_renderable, Text):
        made = InlineText(Text("\n\n".join(_paragraphs(description.primary_renderable.plain))))
        made.texts = list(description.texts)
        return made
    if isinstance(description, str):
        return "\n\n".join(_paragraphs(description))
    return description


def _paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in _BLANK_LINE.split(text) if part.strip()]


def _plain(description: Any, console: Console) -> str:
    if isinstance(description, InlineText) and isinstance(description.primary_renderable, Text):
        return description.primary_renderable.plain
    if description is None:
        return ""
    if isinstance(description, str):
        return description
    with console.capture() as captured:
        console.print(description, highlight=False, markup=False)
    return captured.get()
