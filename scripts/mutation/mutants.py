"""Every mutant of a source file, and a draw of them by a seed.

The changes are those of mutmut's operators (`mutmut.mutation.mutators`). mutmut's own walk leaves
out decorated functions, properties and module constants, where guarantees live too; so the walk is
ours. Left out is what cannot change a result: docstrings, annotations and type aliases, `__all__`,
imports, decorators, and the words of errors and other sentences for people.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import libcst as cst
import libcst.matchers as m
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators

# Blanks in a string that is a sentence for people.
SENTENCE_BLANKS = 3
# Calls without an argument, or of None: Python itself raises, so that they tell nothing of tests.
TRIVIAL_CALLS = ("len", "isinstance")
TYPE_CALLS = ("cast", "NewType", "TypeVar")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one place.

    Attributes:
        name: Module and function, and the number of the change in it: `privacy.noise.clip#3`.
        path: The file, relative to the repository.
        lines: First and last line of the statement; of the header alone where it has a body.
        is_imported: Whether the statement runs at import, so that any test of the file may see it.
        before: The code that is changed.
        after: What it becomes.
        place: Which change of the file it is.
    """

    name: str
    path: str
    lines: tuple[int, int]
    is_imported: bool
    before: str
    after: str
    place: int

    def rank(self, seed: int) -> str:
        """Return a hash to draw by: edits elsewhere leave the draw as it was."""
        words = f"{seed}\0{self.name}\0{self.before}\0{self.after}"
        return hashlib.sha256(words.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Change:
    node: cst.CSTNode
    mutated: cst.CSTNode
    scope: str
    lines: tuple[int, int]
    is_imported: bool


class _Changes(cst.CSTVisitor):
    """Collects all changes of a module, in the order of its text."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.found: list[_Change] = []
        self._scopes: list[cst.FunctionDef | cst.ClassDef] = []
        self._lines: list[tuple[int, int]] = []
        self._parameters = 0

    def on_visit(self, node: cst.CSTNode) -> bool:
        if _cannot_matter(node, is_top=not self._scopes):
            return False
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            self._scopes.append(node)
        if isinstance(node, cst.Parameters):
            self._parameters += 1
        if isinstance(node, cst.BaseStatement):
            self._lines.append(self._lines_of(node))
        if self._lines:
            self._change(node)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        # `on_leave` also comes for nodes that `on_visit` turned away: those were never pushed.
        if self._scopes and self._scopes[-1] is original_node:
            self._scopes.pop()
        if isinstance(original_node, cst.Parameters) and self._parameters:
            self._parameters -= 1
        if isinstance(original_node, cst.BaseStatement) and not _cannot_matter(
            original_node, is_top=not self._scopes
        ):
            self._lines.pop()

    def _lines_of(self, node: cst.BaseStatement) -> tuple[int, int]:
        """Return the lines of a statement, of a compound one those before its body."""
        whole: CodeRange = self.get_metadata(PositionProvider, node)
        first, last = whole.start.line, whole.end.line
        body = getattr(node, "body", None)
        if isinstance(body, cst.IndentedBlock) and body.body:
            inner: CodeRange = self.get_metadata(PositionProvider, body.body[0])
            last = max(first, inner.start.line - 1)
        return first, last

    def _change(self, node: cst.CSTNode) -> None:
        is_imported = self._is_imported()
        scope = ".".join(each.name.value for each in self._scopes) or "module"
        for kind, operator in mutation_operators:
            if not isinstance(node, kind) or _is_trivial(node):
                continue
            for mutated in _distinct(node, operator(node)):
                self.found.append(_Change(node, mutated, scope, self._lines[-1], is_imported))

    def _is_imported(self) -> bool:
        functions = [each for each in self._scopes if isinstance(each, cst.FunctionDef)]
        return not functions or (len(functions) == 1 and self._parameters > 0)


def _distinct(node: cst.CSTNode, mutated: Iterator[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """Yield the changes of a node; of a string the first alone, which stands for all three."""
    for each in mutated:
        yield each
        if isinstance(node, cst.SimpleString):
            return


def _is_trivial(node: cst.CSTNode) -> bool:
    return m.matches(node, m.Call(func=m.OneOf(*map(m.Name, TRIVIAL_CALLS))))


def _cannot_matter(node: cst.CSTNode, *, is_top: bool) -> bool:
    """Whether no change of a node, or of anything in it, can change a result."""
    if isinstance(node, cst.Annotation | cst.Decorator | cst.Import | cst.ImportFrom | cst.Raise):
        return True
    if isinstance(node, cst.SimpleString | cst.ConcatenatedString | cst.FormattedString):
        return _is_sentence(node)
    if isinstance(node, cst.SimpleStatementLine):
        return _is_docstring(node) or (is_top and _is_type_alias(node))
    if isinstance(node, cst.Call):
        return _called(node).endswith("Error") or _called(node) in TYPE_CALLS
    return m.matches(node, m.If(test=m.Name("TYPE_CHECKING")))


def _called(node: cst.Call) -> str:
    if isinstance(node.func, cst.Name):
        return node.func.value
    return node.func.attr.value if isinstance(node.func, cst.Attribute) else ""


def _is_sentence(node: cst.CSTNode) -> bool:
    return cst.Module([]).code_for_node(node).count(" ") >= SENTENCE_BLANKS


def _is_docstring(node: cst.SimpleStatementLine) -> bool:
    text = m.SimpleString() | m.ConcatenatedString()
    return m.matches(node, m.SimpleStatementLine([m.Expr(text)]))


def _is_type_alias(node: cst.SimpleStatementLine) -> bool:
    """Whether a statement of the module names a type, or what the module exports."""
    value = m.Subscript() | m.BinaryOperation(operator=m.BitOr())
    named = m.AssignTarget(m.Name(m.MatchRegex(r"_?[A-Z][a-z]\w*")))
    exported = m.AssignTarget(m.Name("__all__"))
    return m.matches(
        node,
        m.SimpleStatementLine([m.Assign([named], value) | m.Assign([exported])]),
    )


@cache
def _changes(source: str) -> tuple[cst.Module, list[_Change]]:
    wrapper = MetadataWrapper(cst.parse_module(source))
    visitor = _Changes()
    wrapper.visit(visitor)
    return wrapper.module, visitor.found


def mutants_of(path: Path, root: Path) -> list[Mutant]:
    """Return every mutant of a file under `root`/src/fedner."""
    _, changes = _changes(path.read_text(encoding="utf-8"))
    module = ".".join(path.relative_to(root / "src" / "fedner").with_suffix("").parts)
    numbers: Counter[str] = Counter()
    found = []
    blank = cst.Module([])
    for place, each in enumerate(changes):
        numbers[each.scope] += 1
        found.append(
            Mutant(
                f"{module}.{each.scope}#{numbers[each.scope]}",
                str(path.relative_to(root)),
                each.lines,
                each.is_imported,
                blank.code_for_node(each.node).strip(),
                blank.code_for_node(each.mutated).strip(),
                place,
            )
        )
    return found


def mutated_source(mutant: Mutant, source: str) -> str:
    """Return the text of a mutant's file with its change."""
    module, changes = _changes(source)
    chosen = changes[mutant.place]
    changed = module.deep_replace(chosen.node, chosen.mutated)
    if not isinstance(changed, cst.Module):
        raise SystemExit(f"{mutant.name}: the change replaces the whole file")
    return changed.code


def all_mutants(root: Path, rooms: Sequence[str]) -> list[Mutant]:
    """Return the mutants of all files of some rooms; a room may be a single file."""
    places = [root / "src/fedner" / room for room in rooms]
    files = [
        path
        for place in places
        for path in ([place] if place.is_file() else sorted(place.rglob("*.py")))
    ]
    return [mutant for path in files for mutant in mutants_of(path, root)]


def drawn(mutants: Sequence[Mutant], number: int, seed: int) -> list[Mutant]:
    """Return so many mutants, drawn by a seed: those whose hashes are the smallest."""
    return sorted(mutants, key=lambda mutant: mutant.rank(seed))[:number]
