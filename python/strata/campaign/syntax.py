"""The grammar of expressions: text to tree. What the words mean is settled elsewhere.

    chain    = sum { "|" sum }
    sum      = times { "+" times }
    times    = [ NUMBER "*" ] atom
    atom     = "(" chain ")" | "{" chain { "," chain } "}" [ args ] | word [ args ]
    args     = "(" [ arg { "," arg } ] ")"
    arg      = word "=" value | value | "{" arg { "," arg } "}"
    value    = word | string | "{" value { "," value } "}"
    word     = anything without white space and without  | + * , ( ) { } = " '
    string   = text in double quotation marks, with the escapes  \\" \\\\ \\n \\r \\t

A word that starts with "$" stands for the alternatives of a named factor; `(x)` after `}` or after such a word
gives the argument to every alternative. New lines are white space.

Written by hand, without a parser generator: the messages say what was expected in the user's words, and starting
up costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, TypeVar

from strata.campaign.source import At, Source, named, unprintable
from strata.campaign.tree import Arg, ArgChoice, Choice, Lit, Named, Pair, Ref, Sum, Times, Tree, chained
from strata.errors import BadInput

T = TypeVar("T")

MAX_DEPTH = 40  # of brackets: far more than a stack has, far less than Python's recursion limit


def parse_chain(source: Source, noun: str = "a layer name", example: str = "disk | ext4") -> Tree:
    """The tree of a whole stack or workload expression. Raises BadInput with the first breach of the grammar."""
    parser = _Parser(source, noun)
    if parser.kind is _Kind.END:
        raise parser.fail(f"there is nothing here; write something like: {example}")
    return parser.whole(parser.chain, "'|' or the end")


def parse_arg(source: Source) -> Arg:
    parser = _Parser(source, "an argument")
    return parser.whole(parser.arg, "the end of the argument")


def parse_value(source: Source) -> Lit | ArgChoice | Ref:
    parser = _Parser(source, "a value")
    return parser.whole(parser.value, "the end of the value")


# ---------------------------------------------------------------- words


class _Kind(Enum):
    WORD = 1
    STRING = 2
    SIGN = 3
    END = 4


class _Token(NamedTuple):
    kind: _Kind
    text: str  # of a string: its value
    start: int
    end: int


_TOKEN = re.compile(
    r"""(?P<space>\s+) | (?P<word>[^\s|+*,(){}="']+) | "(?P<string>(?:[^"\\]|\\.)*)" | (?P<sign>[|+*,(){}=])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}


def _fail(source: Source, offset: int, message: str) -> BadInput:
    return BadInput([source.problem(offset, message)])


def _tokens(source: Source) -> list[_Token]:
    text, position = source.text, 0
    if (wrong := unprintable(text, "\n\r\t")) is not None:
        raise _fail(source, wrong, f"here stands the {named(text[wrong])}; remove it")
    found: list[_Token] = []
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            if text[position] == "'":
                raise _fail(source, position, 'a single quotation mark cannot stand here; write "..." around a value')
            raise _fail(source, position, 'this quotation mark is never closed; put a second " after the value')
        if match["word"] is not None:
            found.append(_Token(_Kind.WORD, match["word"], position, match.end()))
        elif match["string"] is not None:
            value = _unescaped(source, match.start("string"), match["string"])
            found.append(_Token(_Kind.STRING, value, position, match.end()))
        elif match["sign"] is not None:
            found.append(_Token(_Kind.SIGN, match["sign"], position, match.end()))
        position = match.end()
    end = len(text.rstrip())
    return [*found, _Token(_Kind.END, "", end, end)]


def _unescaped(source: Source, start: int, text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            message = f"\\{match[1]} means nothing between quotation marks; write \\\\ for a backslash"
            raise _fail(source, start + match.start(), message)
        return _ESCAPES[match[1]]

    return _ESCAPE.sub(plain, text)


# ---------------------------------------------------------------- sentences


class _Parser:
    """Recursive descent, one method per rule of the grammar."""

    def __init__(self, source: Source, noun: str) -> None:
        self.source = source
        self.noun = noun  # what a word names here
        self.tokens = _tokens(source)
        self.index = 0
        self.depth = 0

    @property
    def token(self) -> _Token:
        return self.tokens[self.index]

    @property
    def kind(self) -> _Kind:
        return self.token.kind

    def next_is(self, sign: str) -> bool:
        after = self.tokens[min(self.index + 1, len(self.tokens) - 1)]
        return after.kind is _Kind.SIGN and after.text == sign

    def take(self, sign: str) -> bool:
        if self.kind is _Kind.SIGN and self.token.text == sign:
            self.index += 1
            return True
        return False

    def at(self, token: _Token) -> At:
        return At(self.source, token.start)

    def fail(self, message: str, token: _Token | None = None) -> BadInput:
        return _fail(self.source, (token or self.token).start, message)

    def expected(self, what: str, hint: str = "") -> BadInput:
        """`what` could have stood where the token is."""
        place = "at the start"
        if self.index:
            before = self.tokens[self.index - 1]
            place = f"after '{self.source.text[before.start : before.end]}'"
        here = self.source.text[self.token.start : self.token.end]
        found = "the text ends there" if self.kind is _Kind.END else f"found '{here}'"
        return self.fail(f"expected {what} {place}, but {found}{hint}")

    def whole(self, rule: Callable[[], T], then: str) -> T:
        found = rule()
        if self.kind is not _Kind.END:
            raise self.expected(then)
        return found

    def listed(self, opened: _Token, closing: str, rule: Callable[[], T]) -> list[T]:
        """One or more, separated by commas, up to the closing bracket."""
        found = [self.inside(rule)]
        while self.take(","):
            found.append(self.inside(rule))
        if not self.take(closing):
            column = self.source.problem(opened.start, "").column
            raise self.expected(f"',' or '{closing}'", f"; close the '{opened.text}' of column {column}")
        return found

    def inside(self, rule: Callable[[], T]) -> T:
        if self.depth == MAX_DEPTH:
            raise self.fail(f"brackets are nested more than {MAX_DEPTH} deep; write it flatter")
        self.depth += 1
        found = rule()
        self.depth -= 1
        return found

    # -- stacks and workloads

    def chain(self) -> Tree:
        at = self.at(self.token)
        parts = [self.sum()]
        while self.take("|"):
            parts.append(self.sum())
        return chained(at, parts)

    def sum(self) -> Tree:
        at = self.at(self.token)
        terms = [self.times()]
        while self.take("+"):
            terms.append(self.times())
        return terms[0] if len(terms) == 1 else Sum(at, tuple(terms))

    def times(self) -> Tree:
        number = self.token
        if number.kind is not _Kind.WORD or not self.next_is("*"):
            return self.atom()
        if not (number.text.isascii() and number.text.isdigit() and len(number.text) < 10):
            raise self.fail(f"expected a whole number before '*', but found '{number.text}'; write it as 4*hdd")
        self.index += 2
        if self.kind is _Kind.WORD and self.next_is("*"):
            raise self.fail("only one number can stand before '*'; multiply them, or group as in 2*(2*hdd | md(raid1))")
        return Times(self.at(number), int(number.text), self.atom())

    def atom(self) -> Tree:
        token = self.token
        if self.take("("):
            inner = self.inside(self.chain)
            if not self.take(")"):
                column = self.source.problem(token.start, "").column
                raise self.expected("'|', '+' or ')'", f"; close the '(' of column {column}")
            return inner
        if self.take("{"):
            branches: list[Tree] = []
            for branch in self.listed(token, "}", self.chain):
                flat = isinstance(branch, Choice) and not branch.args
                branches.extend(branch.branches if isinstance(branch, Choice) and flat else [branch])
            return Choice(self.at(token), tuple(branches), self.args())
        if token.kind is not _Kind.WORD:
            raise self.expected(self.noun)
        self.index += 1
        if token.text.startswith("$"):
            return Ref(self.at(token), self.factor(token), self.args())
        path, variant = self.quoted_path(token)
        return Named(self.at(token), token.text, self.args(), path, variant)

    def quoted_path(self, name: _Token) -> tuple[str | None, str | None]:
        path = self.token
        if not name.text.endswith(":") or path.kind is not _Kind.STRING or path.start != name.end:
            return None, None
        self.index += 1
        tail = self.token
        if tail.kind is _Kind.WORD and tail.start == path.end and tail.text.startswith("@"):
            self.index += 1
            return path.text, tail.text[1:]
        return path.text, None

    def factor(self, token: _Token) -> str:
        if token.text == "$":
            raise self.fail("expected the name of a factor right after '$'; write it as $fs", token)
        return token.text[1:]

    # -- arguments

    def args(self) -> tuple[Arg, ...]:
        opened = self.token
        if not self.take("(") or self.take(")"):
            return ()
        return tuple(self.listed(opened, ")", self.arg))

    def arg(self) -> Arg:
        name = self.token
        if name.kind is _Kind.WORD and self.next_is("="):
            self.index += 2
            return Pair(self.at(name), name.text, self.value())
        return self.single("an argument", self.arg)

    def value(self) -> Lit | ArgChoice | Ref:
        return self.single("a value", self.value)

    def single(self, what: str, rule: Callable[[], Arg]) -> Lit | ArgChoice | Ref:
        token = self.token
        if self.take("{"):
            branches: list[Arg] = []
            for branch in self.listed(token, "}", rule):
                branches.extend(branch.branches if isinstance(branch, ArgChoice) else [branch])
            return ArgChoice(self.at(token), tuple(branches))
        if token.kind is _Kind.STRING:
            self.index += 1
            return Lit(self.at(token), token.text, quoted=True)
        if token.kind is not _Kind.WORD:
            raise self.expected(what)
        self.index += 1
        if token.text.startswith("$"):
            return Ref(self.at(token), self.factor(token))
        return Lit(self.at(token), token.text)
