"""Measures the structure of the package, and checks the rules of CONTRIBUTING.md about modules and names.

    python -m tools.structure [--check]

Prints modules, classes, code lines and the like. With `--check` it prints instead each class name that is used twice,
each small module with one user, and each line of an edge that reaches past the services to a store or an index, and
ends with 1 where there are any.
"""

import ast
import io
import statistics
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "mcp_memory"
SMALL = 60
"""Lines of code below which a module needs a second user."""
RULES = tomllib.loads(Path(__file__).with_name("structure.toml").read_text("utf-8"))
_APP = {"app", "_app", "memory"}
"""What entrypoints call the facade, as in `visit.app.records`."""
_STORES = ("mcp_memory.stores", "mcp_memory.ports.retrieval")
"""The modules whose classes are stores and indexes."""
_NOT_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip


@dataclass(frozen=True)
class Module:
    """A module: its dotted name below the package, and its source."""

    name: str
    path: Path

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text("utf-8"))

    @cached_property
    def code_lines(self) -> int:
        """Lines that hold code: no comment, docstring or blank."""
        docstrings: set[int] = set()
        for node in ast.walk(self.tree):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        lines: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.path.read_text("utf-8")).readline):
            if token.type not in _NOT_CODE:
                lines.update(range(token.start[0], token.end[0] + 1))
        return len(lines - docstrings)

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def room(self) -> str:
        """The first two parts of the name: `domain.text`, or the layer alone where it has no rooms."""
        return ".".join(self.name.split(".")[:2])

    def classes(self) -> Iterator[ast.ClassDef]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))


def modules() -> dict[str, Module]:
    """Return every module of the package by its dotted name below it; a package has its folder's name."""
    found: dict[str, Module] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path)
    return found


def importers(of: dict[str, Module]) -> dict[str, set[str]]:
    """Return, for each module, the names of those that import it."""
    users: dict[str, set[str]] = defaultdict(set)
    for module in of.values():
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("mcp_memory"):
                continue
            origin = (node.module or "").removeprefix("mcp_memory").removeprefix(".")
            for alias in node.names:
                whole = f"{origin}.{alias.name}".lstrip(".")
                users[whole if whole in of else origin].add(module.name)
    return {name: users[name] - {name} for name in of}


def stores_of(wiring: Module) -> set[str]:
    """Return the attributes of the composition that are a store or an index: "records", "graph"."""
    known = {
        alias.name
        for node in ast.walk(wiring.tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_STORES)
        for alias in node.names
    }
    [composition] = (each for each in wiring.classes() if each.name == "Wiring")
    found: set[str] = set()
    for node in ast.walk(composition):
        if isinstance(node, ast.FunctionDef) and isinstance(node.returns, ast.Name) and node.returns.id in known:
            found.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            named = {each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)}
            own = {each.attr for each in ast.walk(node.value) if isinstance(each, ast.Attribute)}
            if named & known or own & found:  # `self.logs = self.records.session_logs()`
                found.add(node.targets[0].attr)
    return found


def reaches(edge: Module, stores: set[str]) -> Iterator[str]:
    """Yield a line for each place of an edge that names a store or an index of the facade."""
    for node in ast.walk(edge.tree):
        if isinstance(node, ast.Attribute) and node.attr in stores:
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            if owner in _APP:
                yield f"{edge.name}:{node.lineno}: {owner}.{node.attr} reaches past the services"


def figures() -> Iterator[tuple[str, object]]:
    """Yield each figure's name and value."""
    found = modules()
    users = importers(found)
    plain = [module for module in found.values() if not module.is_package]
    rooms = {(module.room, found[user].room) for module in plain for user in users[module.name]}
    ports = [
        (sum(isinstance(part, ast.FunctionDef) for part in each.body), each.name)
        for module in plain
        if module.name.startswith("ports")
        for each in module.classes()
    ]
    yield "modules (without __init__)", len(plain)
    yield "classes", sum(1 for module in found.values() for _ in module.classes())
    yield "code lines", sum(module.code_lines for module in found.values())
    yield "code lines of the median module", statistics.median(module.code_lines for module in plain)
    yield "modules with one importer", sum(len(users[module.name]) == 1 for module in plain)
    yield "arrows between rooms", sum(user != used for used, user in rooms)
    yield "methods of the widest port", "{} ({})".format(*max(ports))


def faults() -> Iterator[str]:
    """Yield a line for each class name that is used twice, small module with one user or none, and reach of an edge."""
    found = modules()
    users = importers(found)
    places: dict[str, list[str]] = defaultdict(list)
    for module in found.values():
        for each in module.classes():
            places[each.name].append(module.name)
    for name, where in sorted(places.items()):
        if len(where) > 1:
            yield f"class {name}: {', '.join(where)}"
    for module in found.values():
        if module.is_package or module.code_lines >= SMALL or len(users[module.name]) > 1:
            continue
        if module.name not in RULES["small"] and module.name.rpartition(".")[0] not in RULES["registries"]:
            yield f"{module.name}: {module.code_lines} lines of code, for {', '.join(users[module.name]) or 'nobody'}"
    stores = stores_of(found["wiring"])
    for module in found.values():
        if module.name.startswith("entrypoints"):
            yield from reaches(module, stores)


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        wrong = list(faults())
        print(*wrong, f"{len(wrong)} faults" if wrong else "Structure: no faults", sep="\n")
        sys.exit(1 if wrong else 0)
    for title, value in figures():
        print(f"{title:40}{value}")
    print(Counter(module.name.split(".")[0] for module in modules().values()).most_common(8))
