"""YAML with the place of every key and value, so that a problem found in the data points into the file.

Scalars stay the text that was written: what a value means is decided where it is used (`4G`, `on`, `010`), not by
YAML. Only an empty value or `~` is None: `null` is the name of a workload.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.parser import Parser

from strata.campaign.source import At, Problems, Source, named, unprintable
from strata.errors import BadInput

MAX_DEPTH = 40
MAX_VALUES = 20_000  # with those that an alias repeats; each takes about 0.1 ms

# What YAML itself makes of a value that has no tag of its own. Values are kept as text, so that none of them acts.
_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "timestamp", "binary", "value", "merge", "seq", "map")
)

Path = tuple[str | int, ...]
Plain = Any  # None, str, list or dict of such


@dataclass(slots=True)
class Document:
    data: Plain
    values: Mapping[Path, Source]  # where each value stands, and its text when it is a scalar
    keys: Mapping[Path, Source]

    def at(self, path: Path) -> At:
        """The key when it has one, for what is wrong with a whole entry."""
        while path not in self.keys and path not in self.values:
            path = path[:-1]
        return At(self.keys[path] if path in self.keys else self.values[path], 0)

    def value_at(self, path: Path) -> At:
        while path not in self.values:
            path = path[:-1]
        return At(self.values[path], 0)


def write(data: Mapping[str, Any]) -> str:
    """YAML that `read` gives back as this, its keys in this order."""
    text = StringIO()
    yaml = YAML()
    yaml.width = 120
    yaml.dump(dict(data), text)
    return text.getvalue()


def read(
    text: str, where: str, problems: Problems, what: str = "a campaign file", example: str = "stacks: [disk | ext4]"
) -> Document | None:
    """None when it is not YAML of one mapping; what is wrong goes to `problems`. `what` it is to be, and an example."""
    file = Source(text, where)
    yaml = YAML(typ="safe", pure=True)
    yaml.composer.warn_double_anchors = False  # the later one holds, as YAML says
    yaml.Parser = _BoundedParser
    try:
        root = yaml.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        offset = min(mark.index, len(text)) if mark is not None else 0
        said = " ".join(part for part in (error.context, error.problem) if part)
        problems.add(At(file, offset), f"this is not YAML: {said}; put a value with signs in quotation marks")
        return None
    except _TooLong as error:
        message = f"from here on this file has more than {MAX_VALUES} values; write fewer, or split it"
        problems.add(At(file, min(error.index, len(text))), message)
        return None
    except (YAMLError, ValueError, RecursionError) as error:
        problems.add(At(file, 0), f"this is not YAML: {' '.join(str(error).split())}; correct the file")
        return None
    if not isinstance(root, MappingNode):
        problems.add(At(file, 0), f"{what} is a list of keys with values; write at least: {example}")
        return None
    reader = _Reader(text.split("\n"), where, problems)
    try:
        data = reader.plain(root, (), ())
    except BadInput as error:
        problems.extend(error.problems)
        return None
    return Document(data, reader.values, reader.keys)


class _TooLong(Exception):
    """`index`: of the character at which reading stopped."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


class _BoundedParser(Parser):
    """Stops a file of millions of values while it is read, not after the minutes that this takes."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._events = 0

    def get_event(self) -> Any:
        self._events += 1
        if self._events > 3 * MAX_VALUES:  # a collection has two, and a key is a scalar of its own
            raise _TooLong(self.scanner.peek_token().start_mark.index)
        return super().get_event()


@dataclass(slots=True)
class _Reader:
    lines: list[str]
    where: str
    problems: Problems
    values: dict[Path, Source] = field(default_factory=dict)
    keys: dict[Path, Source] = field(default_factory=dict)

    def plain(self, node: Node, path: Path, above: tuple[int, ...]) -> Plain:
        place = self.values[path] = self.source(node)
        if id(node) in above or len(above) > MAX_DEPTH or len(self.values) > MAX_VALUES:
            raise BadInput(
                [place.problem(0, "this is nested too deeply, too long or refers to itself; write it shorter")]
            )
        if node.tag not in _PLAIN_TAGS:
            self.problems.add(At(place, 0), f"the tag {node.tag} has no meaning in this file; remove it")
        inside = (*above, id(node))
        if isinstance(node, SequenceNode):
            return [self.plain(item, (*path, number), inside) for number, item in enumerate(node.value)]
        if isinstance(node, MappingNode):
            found: dict[str, Plain] = {}
            for key, value in node.value:
                source = self.source(key)
                if not isinstance(key, ScalarNode):
                    self.problems.add(At(source, 0), "a key is a plain word; put an expression in quotation marks")
                    continue
                if (wrong := unprintable(key.value)) is not None:
                    self.problems.add(At(source, 0), f"this key holds the {named(key.value[wrong])}; remove it")
                    continue
                if key.value in found:
                    self.problems.add(At(source, 0), f"'{key.value}' is written twice; keep one of them")
                    continue
                self.keys[(*path, key.value)] = source
                found[key.value] = self.plain(value, (*path, key.value), inside)
            return found
        assert isinstance(node, ScalarNode)
        if node.value in ("", "~") and not node.style:
            return None
        self.check(place, path, str(node.value))
        return str(node.value)

    def check(self, place: Source, path: Path, text: str) -> None:
        """A file that is written into this one may hold any text that UTF-8 can express."""
        enclosed = path[:1] == ("files",)
        wrong = unprintable(text, "" if path[-1:] == ("name",) else "\n\t")
        if wrong is not None and (not enclosed or 0xD800 <= ord(text[wrong]) <= 0xDFFF):
            self.problems.add(At(place, 0), f"this value holds the {named(text[wrong])}; remove it")

    def source(self, node: Node) -> Source:
        """A scalar on one line, written without escapes, is a part of its line; others count places in themselves."""
        mark = node.start_mark
        line, column = mark.line, mark.column
        row = self.lines[line] if line < len(self.lines) else ""
        if not isinstance(node, ScalarNode):
            return Source(row[column:], self.where, line + 1, column + 1, self.lines)
        text = str(node.value)
        for start in (column, column + 1):
            if "\n" not in text and row.startswith(text, start):
                return Source(text, self.where, line + 1, start + 1, self.lines)
        return Source(text, f"{self.where} (the text that begins on line {line + 1})")
