"""Reads the Lua scripts without running them: names that nobody declared or nobody uses, headers that tell lies."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import tree_sitter_lua
from tree_sitter import Language, Node, Parser

from echomq_django.bus.scripts import expand, fragment

GLOBALS = frozenset(
    re.findall(
        r"\w+",
        """
        ARGV KEYS assert bit cjson cmsgpack error ipairs math next pairs pcall redis select string struct table tonumber
        tostring type unpack
        """,
    )
)
TYPES = frozenset({"HASH", "LIST", "SET", "STREAM", "STRING", "ZSET"})

_PARSER = Parser(Language(tree_sitter_lua.language()))
_INCLUDE = re.compile(r"--- @include (\w+)")
_DOCUMENTED = re.compile(r"-- (KEYS|ARGV)\[(\d+)(\+?)\] +(.+)")
_LITERAL = re.compile(r"\b(KEYS|ARGV)\[(\d+)\]")
_COMPUTED = re.compile(r"(?:#|unpack\()(KEYS|ARGV)\b|\b(KEYS|ARGV)\[(?!\d+\])")


@dataclass
class Variable:
    """A local name, the line where it is declared (from 0) and the lines that read it."""

    name: str
    line: int
    parameter: bool
    reads: list[int] = field(default_factory=list)


class Names:
    """Resolves each name of a chunk by the scoping rules of Lua 5.1."""

    def __init__(self, chunk: Node) -> None:
        self.variables: list[Variable] = []
        self.undeclared: list[tuple[str, int]] = []
        self._scopes: list[dict[str, Variable]] = []
        self._in_scope(chunk)

    @property
    def unused(self) -> Iterator[Variable]:
        """Locals that nothing reads; parameters and `_` may go unread."""
        return (v for v in self.variables if not v.reads and not v.parameter and v.name != "_")

    def _in_scope(self, *nodes: Node | None, parameters: list[Node] | None = None) -> None:
        self._scopes.append({})
        for name in parameters or []:
            self._declare(name, parameter=True)
        for node in nodes:
            for child in node.named_children if node else []:
                self._visit(child)
        self._scopes.pop()

    def _visit(self, node: Node) -> None:
        handler = getattr(self, f"visit_{node.type}", None)
        if handler:
            handler(node)
        else:
            for child in node.named_children:
                self._visit(child)

    def _declare(self, node: Node, *, parameter: bool = False) -> None:
        variable = Variable(_text(node), node.start_point.row, parameter)
        self.variables.append(variable)
        self._scopes[-1][variable.name] = variable

    def _lookup(self, node: Node) -> Variable | None:
        found = (scope[_text(node)] for scope in reversed(self._scopes) if _text(node) in scope)
        return next(found, None)

    def visit_identifier(self, node: Node) -> None:
        variable = self._lookup(node)
        if variable:
            variable.reads.append(node.start_point.row)
        elif _text(node) not in GLOBALS:
            self.undeclared.append((_text(node), node.start_point.row))

    def _write(self, node: Node) -> None:
        if node.type != "identifier":
            self._visit(node)
        elif self._lookup(node) is None:
            self.undeclared.append((_text(node), node.start_point.row))

    def visit_block(self, node: Node) -> None:
        self._in_scope(node)

    def visit_variable_declaration(self, node: Node) -> None:
        for values in _descend(node, "expression_list"):
            self._visit(values)
        for names in _descend(node, "variable_list"):
            for name in _of_type(names, "identifier"):
                self._declare(name)

    def visit_assignment_statement(self, node: Node) -> None:
        for values in _of_type(node, "expression_list"):
            self._visit(values)
        for targets in _of_type(node, "variable_list"):
            for target in targets.named_children:
                self._write(target)

    def visit_function_declaration(self, node: Node) -> None:
        name = _part(node, "name")
        if any(child.type == "local" for child in node.children):
            self._declare(name)
        else:
            self._write(name)
        self.visit_function_definition(node)

    def visit_function_definition(self, node: Node) -> None:
        parameters = _of_type(_part(node, "parameters"), "identifier")
        self._in_scope(node.child_by_field_name("body"), parameters=parameters)

    def visit_for_statement(self, node: Node) -> None:
        clause = _part(node, "clause")
        names = _descend(clause, "variable_list")
        counters = [name for each in names for name in each.named_children] or [_part(clause, "name")]
        for part in clause.named_children:
            if part not in counters and part not in names:
                self._visit(part)
        self._in_scope(node.child_by_field_name("body"), parameters=counters)

    def visit_repeat_statement(self, node: Node) -> None:
        self._scopes.append({})
        for child in [*_part(node, "body").named_children, _part(node, "condition")]:
            self._visit(child)
        self._scopes.pop()

    def visit_dot_index_expression(self, node: Node) -> None:
        self._visit(_part(node, "table"))

    visit_method_index_expression = visit_dot_index_expression

    def visit_field(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name and node.children[0].type == "[":
            self._visit(name)
        self._visit(_part(node, "value"))


def source_problems(script: str) -> list[str]:
    """Say what is wrong with the expanded text of a script; nothing is an empty list."""
    root = _PARSER.parse(expand(script).encode()).root_node
    if root.has_error:
        return [f"line {_first_error(root).start_point.row + 1}: syntax error"]
    names = Names(root)
    pasted = _pasted_lines(script)
    own = [variable for variable in names.unused if not any(variable.line in lines for lines in pasted.values())]
    return [
        *(f"line {line + 1}: {name} is not declared" for name, line in names.undeclared),
        *(f"line {variable.line + 1}: {variable.name} is never read" for variable in own),
        *(f"fragment {name} is not used" for name, lines in pasted.items() if not _is_used(lines, names, root)),
    ]


def header_problems(name: str, script: str) -> list[str]:
    """Say where the comment above a script contradicts its body; nothing is an empty list."""
    comments = [line for line in script.splitlines() if line.startswith("--")]
    header = comments[: next((n for n, line in enumerate(comments) if line.startswith("--- @include")), None)]
    problems = []
    if not header or not re.fullmatch(rf"-- {name}: [A-Z].*\.", header[0]):
        problems.append(f"the first comment is not '-- {name}: <sentence>.'")
    if not any(re.match(r"-- Returns \S", line) for line in header):
        problems.append("the header has no '-- Returns <shape>'")
    documented = [match.groups() for line in header if (match := _DOCUMENTED.fullmatch(line))]
    body = "\n".join(line for line in expand(script).splitlines() if not line.startswith("--"))
    for array in ("KEYS", "ARGV"):
        entries = [(int(index), plus, text) for kind, index, plus, text in documented if kind == array]
        problems += _array_problems(array, entries, body)
    return problems


def _array_problems(array: str, entries: list[tuple[int, str, str]], body: str) -> Iterator[str]:
    last = entries[-1] if entries else (0, "", "")
    if [index for index, _, _ in entries] != list(range(1, len(entries) + 1)) or any(e[1] for e in entries[:-1]):
        yield f"{array} are not numbered 1, 2, ..., with a '+' at the last only"
    fixed = {index for index, plus, _ in entries if not plus}
    used = {int(index) for kind, index in _LITERAL.findall(body) if kind == array}
    yield from (f"{array}[{index}] is documented but not used" for index in sorted(fixed - used))
    open_ended = last[0] if last[1] else None
    for index in sorted(used - fixed):
        if open_ended is None or index < open_ended:
            yield f"{array}[{index}] is used but not documented"
    computed = any(array in match for match in _COMPUTED.findall(body))
    if computed != (open_ended is not None):
        yield f"{array}[n+] is {'used' if computed else 'documented'} but not {'documented' if computed else 'used'}"
    if array == "KEYS":
        yield from (f"KEYS[{i}] has no type" for i, _, text in entries if not TYPES & set(text.split()[1:2]))


def _pasted_lines(script: str) -> dict[str, range]:
    """Where in the expanded text each fragment stands."""
    pasted, at = {}, 0
    for line in script.splitlines():
        match = _INCLUDE.fullmatch(line)
        size = fragment(match[1]).count("\n") if match else 1
        if match:
            pasted[match[1]] = range(at, at + size)
        at += size
    return pasted


def _is_used(lines: range, names: Names, root: Node) -> bool:
    """A fragment is used if the rest of the script reads a name of it, or if it acts where it stands."""
    declarations = {"comment", "function_declaration", "variable_declaration"}
    acts = any(node.start_point.row in lines and node.type not in declarations for node in root.named_children)
    reads = (line for variable in names.variables if variable.line in lines for line in variable.reads)
    return acts or any(line not in lines for line in reads)


def _first_error(node: Node) -> Node:
    broken = next((child for child in node.children if child.has_error or child.is_missing), None)
    return node if broken is None or node.is_error else _first_error(broken)


def _descend(node: Node, kind: str) -> list[Node]:
    """Nodes of a kind among the children and, for `local a = 1`, inside the assignment."""
    assignments = _of_type(node, "assignment_statement")
    return [found for parent in (node, *assignments) for found in _of_type(parent, kind)]


def _of_type(node: Node, kind: str) -> list[Node]:
    return [child for child in node.named_children if child.type == kind]


def _part(node: Node, name: str) -> Node:
    child = node.child_by_field_name(name)
    assert child is not None, f"a {node.type} without {name}"
    return child


def _text(node: Node) -> str:
    assert node.text is not None
    return node.text.decode()
