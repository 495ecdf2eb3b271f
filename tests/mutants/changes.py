"""The changes that are made to Python code: operators, constants, conditions, statements and calls left out.

Texts are left alone: most are messages, and a test that held each to the letter would hold too much.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
# Not | and &: they join types and sets as well, and the other one of them is seldom a program that runs.
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}


@dataclass(frozen=True, slots=True)
class Change:
    """`after` in place of the bytes from `start` to `end` of a file."""

    line: int  # where it begins, from 1
    last_line: int
    statement_line: int  # where the statement begins that it is in
    start: int
    end: int
    before: str
    after: str

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.end :]


def all_of(source: bytes) -> list[Change]:
    """Every change of a module, in order of place. Raises SyntaxError."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    changes = []
    for statement, node, after in _visit(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        before = source[start:end].decode()
        last = node.end_lineno or node.lineno
        changes.append(Change(node.lineno, last, statement.lineno, start, end, before, after))
    return sorted(changes, key=lambda change: (change.start, change.end, change.after))


_Located = ast.expr | ast.stmt


def _visit(module: ast.Module) -> Iterator[tuple[ast.stmt, _Located, str]]:
    """(statement, what is replaced in it, by what)."""
    waiting: list[tuple[ast.stmt | None, ast.AST]] = [(None, module)]
    while waiting:
        statement, node = waiting.pop()
        if isinstance(node, ast.JoinedStr) or _is_for_types(node):
            continue  # positions within an f-string are wrong before Python 3.12
        if isinstance(node, ast.stmt):
            statement = node
            for after in _of_statement(node):
                yield node, node, after
        elif isinstance(node, ast.expr) and statement is not None:
            for after in _of_expression(node):
                yield statement, node, after
        for condition in _conditions(node):
            if statement is not None:
                yield statement, condition, f"(not ({ast.unparse(condition)}))"
        waiting += [(statement, child) for child in _children(node)]


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Without types and decorators, which no test runs into, and zip's strict=, which states what always holds."""
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child


def _of_statement(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Raise | ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield "pass"
    elif isinstance(node, ast.Continue):
        yield "break"
    elif isinstance(node, ast.Break):
        yield "continue"
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield "return None"


def _of_expression(node: ast.expr) -> Iterator[str]:
    changed = copy.deepcopy(node)
    if isinstance(changed, ast.Compare) and type(changed.ops[0]) in _COMPARISONS:
        changed.ops[0] = _COMPARISONS[type(changed.ops[0])]()
        yield f"({ast.unparse(changed)})"
    elif isinstance(changed, ast.BinOp) and type(changed.op) in _OPERATORS and not _is_text(changed):
        changed.op = _OPERATORS[type(changed.op)]()
        yield f"({ast.unparse(changed)})"
    elif isinstance(changed, ast.BoolOp):
        changed.op = ast.Or() if isinstance(changed.op, ast.And) else ast.And()
        yield f"({ast.unparse(changed)})"
    elif isinstance(changed, ast.UnaryOp) and isinstance(changed.op, ast.Not | ast.USub):
        yield f"({ast.unparse(changed.operand)})"
    elif isinstance(changed, ast.Constant) and isinstance(changed.value, bool):
        yield str(not changed.value)
    elif isinstance(changed, ast.Constant) and isinstance(changed.value, int | float):
        yield repr(changed.value + 1)
    elif isinstance(changed, ast.Call) and len(changed.args) == 1 and not changed.keywords:
        (argument,) = changed.args
        if not isinstance(argument, ast.Starred | ast.GeneratorExp):
            yield f"({ast.unparse(argument)})"


def _conditions(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield node.test
    elif isinstance(node, ast.comprehension):
        yield from node.ifs


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_text(node: ast.BinOp) -> bool:
    """Whether it joins texts, whose other operators are errors at once."""
    return any(isinstance(side, ast.JoinedStr) or _is_text_constant(side) for side in (node.left, node.right))


def _is_text_constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
