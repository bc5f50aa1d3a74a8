"""What may come next on a command line: commands, options, their values, and names of things in the cluster.

Shells ask `bosket __complete WORD…`, the last word being the one that is typed (`command`); kubectl asks
`kubectl_complete-bosket WORD…`. The answer is in the form that kubectl's plugins use: a candidate in each line, with
what it means after a tab, and in the last line `:4`, or `:0` where names of files may come as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bosket.cli.completion.names import names_of

if TYPE_CHECKING:
    from cyclopts import App
    from cyclopts.argument import Argument

FILES, NO_FILES = 0, 4
#: What the arguments and options with these names stand for, of any command, where it is something in the cluster.
_KINDS_BY_OPTION: Final = {
    "--queue": "queue",
    "--namespace": "namespace",
    "-n": "namespace",
    "--context": "context",
    "--shard": "shard",
    "--topology": "topology",
}
#: The same for arguments without a name, by command.
_KINDS_BY_COMMAND: Final = {
    "explain": "job",
    "why": "job",
    "eta": "job",
    "jobs": "job",
    "queues": "queue",
    "run": "service",
}
#: Options that say which cluster is asked for names.
_CLUSTER_OPTIONS: Final = ("--kubeconfig", "--context", "--namespace", "-n")


@dataclass(frozen=True, slots=True)
class Candidates:
    """Values that may stand where the cursor is, with what each means."""

    values: dict[str, str] = field(default_factory=dict)
    takes_files: bool = False

    def lines(self) -> Iterator[str]:
        """As shells read them."""
        for value, meaning in self.values.items():
            yield f"{value}\t{meaning}" if meaning else value
        yield f":{FILES if self.takes_files else NO_FILES}"


def print_candidates(app: App, words: Sequence[str]) -> None:
    """Answers a shell. Nothing is ever said of an error: the person is in the middle of a line."""
    import contextlib
    import sys

    found = Candidates()
    with contextlib.suppress(Exception):
        found = candidates(app, words)
    sys.stdout.write("".join(f"{line}\n" for line in found.lines()))


def candidates(app: App, words: Sequence[str]) -> Candidates:
    """What may stand in the place of the last word. Bash gives `--queue=te` as three words, other shells as one."""
    *before, typed = words or [""]
    prefix = ""
    if typed == "=":
        before, typed = [*before, typed], ""
    if len(before) > 1 and before[-1] == "=":
        before = before[:-1]
    elif typed.startswith("--") and "=" in typed:
        name, _, typed = typed.partition("=")
        before, prefix = [*before, name], f"{name}="
    chain, apps, rest = app.parse_commands(before)
    command = apps[-1]
    arguments = _arguments(command)
    option = _option_before_value(before, arguments)
    if option is not None:
        found = _values(option, option.names, before, typed)
    elif typed.startswith("-"):
        found = Candidates(_options(arguments))
    elif arguments:
        found = _positional(arguments, chain, rest, before, typed)
    elif not rest:
        found = Candidates(_commands(command))
    else:
        found = Candidates()
    matching = {f"{prefix}{value}": why for value, why in found.values.items() if value.startswith(typed)}
    return Candidates(matching, found.takes_files)


def _arguments(command: App) -> list[Argument]:
    """Arguments and options of a command; none of a group of commands."""
    if command.default_command is None:
        return []
    return [each for each in command.assemble_argument_collection(parse_docstring=True) if each.show]


def _option_before_value(before: Sequence[str], arguments: Sequence[Argument]) -> Argument | None:
    """The option that the word under the cursor is the value of."""
    if not before or not before[-1].startswith("-"):
        return None
    named = next((each for each in arguments if before[-1] in each.names), None)
    return named if named is not None and not named.is_flag() else None


def _positional(
    arguments: Sequence[Argument], chain: Sequence[str], rest: Sequence[str], before: Sequence[str], typed: str
) -> Candidates:
    """What may stand as the next argument without a name."""
    places = [each for each in arguments if each.index is not None]
    count = _count_positional(rest, arguments)
    wanted = next((each for each in places if each.index == count), None)
    if wanted is None and places and _takes_many(places[-1]):
        wanted = places[-1]
    if wanted is None:
        return Candidates()
    kind = _KINDS_BY_COMMAND.get(chain[-1] if chain else "")
    return _from_cluster(kind, before, typed) if kind is not None else _values(wanted, (), before, typed)


def _count_positional(rest: Sequence[str], arguments: Sequence[Argument]) -> int:
    with_values = {name for each in arguments if not each.is_flag() for name in each.names}
    count, is_value = 0, False
    for word in rest:
        if is_value:
            is_value = False
        elif word.startswith("-"):
            is_value = word in with_values
        else:
            count += 1
    return count


def _takes_many(argument: Argument) -> bool:
    return bool(argument.token_count()[1])


def _values(argument: Argument, names: Iterable[str], before: Sequence[str], typed: str) -> Candidates:
    kind = next((_KINDS_BY_OPTION[name] for name in names if name in _KINDS_BY_OPTION), None)
    if kind is not None:
        return _from_cluster(kind, before, typed)
    choices = argument.get_choices()
    if choices:
        return Candidates(dict.fromkeys(choices, ""))
    return Candidates(takes_files=_is_path(argument))


def _is_path(argument: Argument) -> bool:
    return "Path" in str(argument.hint)


def _from_cluster(kind: str, before: Sequence[str], typed: str) -> Candidates:
    """Names of what there is, of the cluster that the line is about; none where that is a file."""
    if "--snapshot" in before:
        return Candidates()
    given = {option: _value_of(option, before) for option in _CLUSTER_OPTIONS}
    kubeconfig = given["--kubeconfig"]
    return Candidates(
        names_of(
            kind,
            typed,
            kubeconfig=Path(kubeconfig).expanduser() if kubeconfig else None,
            context=given["--context"],
            namespace=given["--namespace"] or given["-n"],
        )
    )


def _value_of(option: str, words: Sequence[str]) -> str | None:
    for at, word in enumerate(words):
        if word == option:
            value = words[at + 1 : at + 3]
            return next((each for each in value if each != "="), None)
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None


def _options(arguments: Sequence[Argument]) -> dict[str, str]:
    found = {
        name: _first_sentence(each.parameter.help)
        for each in arguments
        if each.index is None
        for name in each.names
        if name.startswith("--")
    }
    return {**found, "--help": "Display this message and exit"}


def _commands(command: App) -> dict[str, str]:
    names = [name for name in command if not name.startswith("-")]
    return {name: _first_sentence(command[name].help) for name in names if command[name].show}


def _first_sentence(text: str | None) -> str:
    """What fits beside a candidate."""
    return " ".join((text or "").split()).partition(". ")[0].rstrip(".")
