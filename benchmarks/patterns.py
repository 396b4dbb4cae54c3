"""Every regular expression that the package is written with, and how it is used: read from the source, no list."""

from __future__ import annotations

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import cast

import mcp_memory
from benchmarks.backtracking import Method

_METHODS: Mapping[str, Method] = {
    **dict.fromkeys(("search", "finditer", "findall", "sub", "subn", "split"), "search"),
    "match": "match",
    "fullmatch": "fullmatch",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A pattern, the place it is written at, and the methods that are called on it."""

    place: str
    pattern: re.Pattern[str]
    methods: Sequence[Method]


@cache
def written_patterns() -> tuple[Sequence[Written], Sequence[str]]:
    """The patterns of all modules; and, as "module: expression", those that are made of a call's own values."""
    known: list[Written] = []
    unknown: list[str] = []
    modules = list(_modules())
    used = _uses(modules)
    for module, nodes in modules:
        names = _assigned(nodes)
        for call in _calls(nodes):
            try:
                pattern = _evaluated(call, importlib.import_module(module))
            except NameError:
                unknown.append(f"{module}: {ast.unparse(call.args[0])}")
                continue
            place = f"{module.removeprefix('mcp_memory.')}:{call.lineno}"
            known.append(Written(place=place, pattern=pattern, methods=_methods(call, module, names, used)))
    return known, unknown


def _modules() -> Iterator[tuple[str, Sequence[ast.AST]]]:
    """The name of each module that calls such a method or has a pattern, with all nodes of its source, its tree first.

    Others are not parsed: that takes longer than all else here. The program itself starts when it is imported.
    """
    root = Path(mcp_memory.__path__[0])
    calls = re.compile(rf"\.(?:compile|{'|'.join(_METHODS)})\b")
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root.parent).with_suffix("").parts
        source = file.read_text("utf-8")
        if parts[-1] != "__main__" and calls.search(source):
            yield ".".join(parts).removesuffix(".__init__"), list(ast.walk(ast.parse(source)))


def _calls(nodes: Sequence[ast.AST]) -> Iterator[ast.Call]:
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id == "re" and node.func.attr in (*_METHODS, "compile"):
                yield node


def _evaluated(call: ast.Call, module: ModuleType) -> re.Pattern[str]:
    def value(node: ast.expr) -> object:
        return eval(compile(ast.Expression(node), module.__name__, "eval"), vars(module))

    flags = re.NOFLAG
    for node in (*call.args[1:], *(each.value for each in call.keywords)):
        try:
            flag = value(node)
        except NameError:
            continue  # The text to search.
        if isinstance(flag, re.RegexFlag):
            flags |= flag
    return re.compile(str(value(call.args[0])), flags)


def _assigned(nodes: Sequence[ast.AST]) -> Mapping[ast.expr, str]:
    """The name that an expression is bound to at the module's top."""
    return {
        node.value: node.targets[0].id
        for node in cast("ast.Module", nodes[0]).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


def _uses(modules: Sequence[tuple[str, Sequence[ast.AST]]]) -> Mapping[tuple[str, str], set[Method]]:
    """The methods called on each name, by module; by "" those called through an attribute, as in `forms.FILE.sub`."""
    found: dict[tuple[str, str], set[Method]] = defaultdict(set)
    for module, nodes in modules:
        for node in nodes:
            if isinstance(node, ast.Attribute) and node.attr in _METHODS:
                for inner in ast.walk(node.value):
                    if isinstance(inner, ast.Name):
                        found[module, inner.id].add(_METHODS[node.attr])
                    elif isinstance(inner, ast.Attribute):
                        found["", inner.attr].add(_METHODS[node.attr])
    return found


def _methods(
    call: ast.Call,
    module: str,
    names: Mapping[ast.expr, str],
    used: Mapping[tuple[str, str], set[Method]],
) -> Sequence[Method]:
    function = cast("ast.Attribute", call.func).attr
    if function != "compile":
        return [_METHODS[function]]
    name = names.get(call, "")
    own = used.get((module, name), set[Method]())
    others = set[Method]() if name.startswith("_") else used.get(("", name), set[Method]())
    # A pattern in a table, or given to somebody: it may be searched with.
    return sorted(own | others) or ["search"]
