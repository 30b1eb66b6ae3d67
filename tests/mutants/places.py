"""Places in the code that can be changed into a fault, and the changes."""

from __future__ import annotations

import ast
import functools
import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

TOKENS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.BitOr: (r"\|", "&"),
    ast.BitAnd: ("&", "|"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
TYPES_ALONE = {"TypeVar", "ParamSpec", "NewType", "cast"}
FORBIDS_OR_SAVES = {"frozen", "slots", "kw_only", "total", "gc"}
"""Keywords of classes that only forbid errors or save memory."""


@dataclass(frozen=True)
class Mutant:
    """Change of one file; `start` and `end` are byte offsets, and `function` is empty outside functions."""

    file: str
    function: str
    kind: str
    ordinal: int
    before: str
    after: str
    start: int
    end: int

    @property
    def key(self) -> str:
        """Return a key that does not change when the function only moves within the file."""
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return f"{self.file} {self.function or '(module)'} {self.kind} {self.ordinal}: {before} -> {after}"

    def applied(self) -> bytes:
        """Return the source of the file with the change."""
        source = Path(self.file).read_bytes()
        return source[: self.start] + self.after.encode() + source[self.end :]

    def changes_something(self) -> bool:
        """Return whether the changed source is valid Python and differs from the original."""
        try:
            return ast.dump(ast.parse(self.applied())) != _parsed(self.file)
        except SyntaxError:
            return False


@functools.cache
def _parsed(file: str) -> str:
    return ast.dump(ast.parse(Path(file).read_bytes()))


def mutants_of(paths: Iterable[Path]) -> list[Mutant]:
    """Return all mutants of these files and folders."""
    files = {file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])}
    return [mutant for file in sorted(files) for mutant in _Finder(file).found]


def chosen(mutants: Iterable[Mutant], seed: int, count: int) -> list[Mutant]:
    """Choose `count` mutants by a hash of seed and key, so that code changes hardly affect the choice."""
    taken: list[Mutant] = []
    for mutant in sorted(mutants, key=lambda each: hashlib.sha256(f"{seed} {each.key}".encode()).digest()):
        if len(taken) == count:
            break
        if mutant.changes_something():
            taken.append(mutant)
    return taken


class _Finder(ast.NodeVisitor):
    def __init__(self, file: Path) -> None:
        self.found: list[Mutant] = []
        self._file = str(file)
        self._source = file.read_bytes()
        self._lines = [0]
        for line in self._source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._scope: list[str] = []
        self._function = ""
        self._counts: Counter[tuple[str, str]] = Counter()
        self.visit(ast.parse(self._source))

    def _span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._lines[node.lineno - 1] + node.col_offset,
            self._lines[node.end_lineno - 1] + node.end_col_offset,
        )

    def _add(self, kind: str, start: int, end: int, after: str) -> None:
        place = (self._function, kind)
        before = self._source[start:end].decode()
        self.found.append(
            Mutant(self._file, self._function, kind, self._counts[place], before, after, start, end)
        )
        self._counts[place] += 1

    def _operator(self, kind: str, left: ast.expr, operator: ast.AST, right: ast.expr) -> None:
        """Add a mutant for the operator between two expressions; the expressions may be in parentheses."""
        if type(operator) not in TOKENS:
            return
        pattern, after = TOKENS[type(operator)]
        start, end = self._span(left)[1], self._span(right)[0]
        if met := re.search(pattern, self._source[start:end].decode()):
            self._add(kind, start + met.start(), start + met.end(), after)

    def _condition(self, test: ast.expr) -> None:
        if isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Await | ast.Subscript | ast.NamedExpr):
            start, end = self._span(test)
            self._add("condition", start, end, f"(not ({self._source[start:end].decode()}))")

    def _removed(self, node: ast.stmt) -> None:
        self._add("statement", *self._span(node), "pass")

    def _visit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._visit_all([*node.decorator_list, *node.args.defaults, *node.args.kw_defaults])
        outermost = not self._function
        self._scope.append(node.name)
        if outermost:
            self._function = ".".join(self._scope)
        self._visit_all(node.body)
        if outermost:
            self._function = ""
        self._scope.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._scope.append(node.name)
        self._visit_all([*node.decorator_list, *node.keywords, *node.body])
        self._scope.pop()

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            if isinstance(node.value, ast.Call | ast.Await):
                self._removed(node)
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id.startswith("__"):
            return
        # Every test finds a missing name.
        if isinstance(target, ast.Attribute | ast.Subscript):
            self._removed(node)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if isinstance(node.target, ast.Attribute) and node.value is not None:
            self._removed(node)
        self._visit_all([node.value])

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._removed(node)
        self._operator("arithmetic", node.target, node.op, node.value)
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._removed(node)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._removed(node)

    def visit_Break(self, node: ast.Break) -> None:
        self._add("loop", *self._span(node), "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._add("loop", *self._span(node), "break")

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self._add("return", *self._span(node.value), "None")
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            self._visit_all(node.orelse)
            return
        self._condition(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._condition(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._condition(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._condition(test)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            start, end = self._span(node.operand)
            self._add("not", *self._span(node), f"({self._source[start:end].decode()})")
        self.visit(node.operand)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._operator("boolean", left, node.op, right)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        parts = [node.left, *node.comparators]
        for left, operator, right in zip(parts, node.ops, parts[1:], strict=False):
            self._operator("comparison", left, operator, right)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._operator("arithmetic", node.left, node.op, node.right)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in TYPES_ALONE:
            self._visit_all(node.args[1:])
            return
        for keyword in node.keywords:
            if keyword.arg is not None and keyword.arg not in FORBIDS_OR_SAVES:
                start, end = self._span(keyword)
                if following := re.match(rb"\s*,\s*", self._source[end:]):
                    end += following.end()
                elif ahead := re.search(rb",\s*\Z", self._source[:start]):
                    start = ahead.start()
                self._add("keyword", start, end, "")
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in FORBIDS_OR_SAVES:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Skip f-strings, because Python 3.11 does not know the positions of their parts."""

    def visit_Constant(self, node: ast.Constant) -> None:
        match node.value:
            case bool():
                after = str(not node.value)
            case int() | float():
                after = repr(node.value + 1)
            case str() if " " not in node.value:  # messages for people are not tested
                after = '""' if node.value else '"mutant"'
            case _:
                return
        self._add("constant", *self._span(node), after)
