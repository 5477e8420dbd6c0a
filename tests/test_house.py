"""The house rules: who may import whom, and where the walls are. The architecture is a test."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "ext4audit"
MODULES = sorted(PACKAGE.rglob("*.py"))

EVERYTHING = frozenset(
    "evidence facts layout sources parsers assemble finding rule rules report rating engine policy "
    "renderers planning cli".split()
)
MAY_IMPORT: dict[str, frozenset[str]] = {
    "records": frozenset(),
    "evidence": frozenset(),
    "facts": frozenset({"evidence", "facts"}),
    "layout": frozenset({"evidence", "facts", "layout"}),
    "sources": frozenset({"evidence", "sources"}),
    "parsers": frozenset({"evidence", "facts", "parsers"}),
    "assemble": frozenset({"evidence", "facts", "sources", "parsers", "layout", "assemble"}),
    "finding": frozenset({"evidence"}),
    "rule": frozenset({"facts", "finding"}),
    "rules": frozenset({"evidence", "facts", "layout", "finding", "rule", "rules"}),
    "report": frozenset({"evidence", "facts", "finding", "rule"}),
    "rating": frozenset({"facts", "finding", "report"}),
    "engine": frozenset({"evidence", "facts", "finding", "rule", "report", "rating"}),
    "policy": frozenset({"facts", "finding", "rule", "report", "policy"}),
    "planning": frozenset("evidence facts layout finding rule report planning".split()),
    # A report holds the facts that a renderer spells out; it sees them through the report only.
    "renderers": frozenset(
        {"evidence", "facts", "finding", "rule", "report", "policy", "renderers"}
    ),
    "cli": EVERYTHING,
    "__main__": frozenset({"cli"}),
    "__init__": frozenset(),
}
EVERYBODY_MAY_IMPORT = {"__version__", "records"}
SOURCES_OF_ASKS = "ext4audit.sources.ask"
THIRD_PARTY_ROOMS = {
    "click": {"cli"},
    "rich": {"renderers", "cli"},
    "pyudev": {"sources"},
    "psutil": {"sources"},
    "subprocess": {"sources"},
}
FORBIDDEN_IN_PURE_ROOMS = {"os", "pathlib", "time", "datetime", "socket", "random", "fcntl"}
PURE_ROOMS = {
    "facts",
    "layout",
    "parsers",
    "assemble",
    "rules",
    "rule",
    "rating",
    "engine",
    "policy",
}
WALLS = {"evidence.py": 1, "engine.py": 1, "cli/guard.py": 1}


def room(path: Path) -> str:
    """Return the room of a module: its folder, or itself at the top level."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """Yield the full dotted names that a module imports, wherever in it the import stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_only_go_down(path: Path) -> None:
    """A module imports only from the rooms that the table allows to its room."""
    ours = [name.split(".") for name in imports(path) if name.startswith("ext4audit")]
    targets = {parts[1] for parts in ours if len(parts) > 1} - EVERYBODY_MAY_IMPORT
    assert targets <= MAY_IMPORT[room(path)], f"{path} reaches {targets - MAY_IMPORT[room(path)]}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_third_party_imports_stay_in_their_room(path: Path) -> None:
    """Click, rich, psutil, pyudev and subprocess are each imported in one room only."""
    for name in imports(path):
        top = name.split(".", maxsplit=1)[0]
        assert room(path) in THIRD_PARTY_ROOMS.get(top, {room(path)}), f"{path} imports {name}"


@pytest.mark.parametrize(
    "path", [m for m in MODULES if room(m) in PURE_ROOMS], ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_pure_rooms_cannot_reach_the_machine(path: Path) -> None:
    """Facts, parsers, assembly, layout and rules import nothing that does I/O or tells time."""
    reached = {name.split(".", maxsplit=1)[0] for name in imports(path)}
    allowed = {"pathlib"} if path == PACKAGE / "rules" / "__init__.py" else set()
    assert not reached & (FORBIDDEN_IN_PURE_ROOMS - allowed)
    assert not any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open"
        for node in ast.walk(ast.parse(path.read_text()))
    )


def test_assembly_asks_only_through_the_catalogue() -> None:
    """Assembly knows the asks, and not which source answers them."""
    for path in (PACKAGE / "assemble").glob("*.py"):
        for name in imports(path):
            if name.startswith("ext4audit.sources"):
                assert name.startswith(SOURCES_OF_ASKS), f"{path} imports {name}"


def test_except_exception_stands_only_at_the_walls() -> None:
    """A blanket except is written once at each wall, and nowhere else."""
    found: dict[str, int] = {}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ExceptHandler) and _is_blanket(node):
                key = str(path.relative_to(PACKAGE))
                found[key] = found.get(key, 0) + 1
    assert found == WALLS


def _is_blanket(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    return bool(names & {"Exception", "BaseException"})


def test_the_top_level_of_the_tree_stays_as_designed() -> None:
    """Nothing is added beside the designed files and folders but dot-files."""
    top = {
        entry.name
        for entry in PACKAGE.parents[1].iterdir()
        if not entry.name.startswith(".") and entry.name not in {"dist", "build"}
    }
    assert top <= {
        "CHANGELOG.md",
        "LICENSE",
        "README.md",
        "docs",
        "fixtures",
        "pyproject.toml",
        "share",
        "src",
        "tests",
        "uv.lock",
    }


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_stay_small(path: Path) -> None:
    """A module beyond 300 lines has outgrown its name."""
    assert len(path.read_text().splitlines()) <= 300
