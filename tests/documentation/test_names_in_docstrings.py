"""Docstrings and comments name what exists: whoever renames a thing renames it there, too."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "src" / "bosket"
#: `name`, `module.name`, `module.py`; not expressions, paths or values
_NAME = re.compile(r"`([A-Za-z_][\w.]*)`")
#: Words of others that the code itself never uses as a name.
FOREIGN = {
    "Host": "a header of HTTP",
    "ListPodResourcesResponse": "a message of the kubelet",
    "PROJECT": "stands for a name",
    "StuckInReleasing": "a status that is put together from words",
    "TopologyInfo": "a message of the kubelet",
    "my__dash__size": "a name in CEL, as Kubernetes escapes it",
    "oneof": "a word of protobuf",
}


def _words(path: Path) -> tuple[set[str], list[tuple[int, str]]]:
    """The words of a module's code and of its short strings; the names in its docstrings and comments, with lines."""
    code, mentioned = set[str](), list[tuple[int, str]]()
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        text = token.string
        if token.type == tokenize.NAME:
            code.add(text)
        elif token.type == tokenize.COMMENT or (token.type == tokenize.STRING and text.startswith('"""')):
            mentioned += [(token.start[0] + text[: m.start()].count("\n"), m[1]) for m in _NAME.finditer(text)]
        elif token.type == tokenize.STRING or token.type == getattr(tokenize, "FSTRING_MIDDLE", None):
            code |= set(re.findall(r"\w+", text))
    return code, mentioned


def test_names_in_docstrings_and_comments_are_those_of_the_code() -> None:
    known, mentioned = set(FOREIGN), list[tuple[str, str]]()
    for path in sorted(SOURCE.rglob("*.py")):
        code, names = _words(path)
        place = path.relative_to(REPOSITORY)
        known |= {*code, *place.with_suffix("").parts}
        mentioned += [(f"{place}:{line}", name) for line, name in names]
    assert len(mentioned) > 1000
    missing = [f"{where}: `{name}`" for where, name in mentioned if not known.issuperset(filter(None, name.split(".")))]
    assert not missing, "\n".join(["these are called differently now, or are gone:", *missing])
