"""The architecture rules: which room imports which, where boundaries are, and house style."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import settings

from support.examples import ALL_PERCENT

PACKAGE = Path(__file__).parents[1] / "src" / "ext4audit"
TESTS = Path(__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
pytestmark = pytest.mark.xdist_group("house")  # each module is parsed once

EVERYTHING = frozenset(
    "evidence facts layout sources parsers assemble finding rule remedies rules report engine "
    "policy renderers planning fixing probing cli".split()
)
MAY_IMPORT: dict[str, frozenset[str]] = {
    "evidence": frozenset(),
    "facts": frozenset({"evidence", "facts"}),
    "layout": frozenset({"evidence", "facts", "layout"}),
    "sources": frozenset({"evidence", "sources"}),
    "parsers": frozenset({"evidence", "facts", "parsers"}),
    "assemble": frozenset({"evidence", "facts", "sources", "parsers", "layout", "assemble"}),
    "finding": frozenset({"evidence"}),
    "rule": frozenset({"facts", "finding"}),
    "remedies": frozenset({"evidence", "facts", "layout", "finding", "remedies"}),
    "rules": frozenset({"evidence", "facts", "layout", "finding", "rule", "remedies", "rules"}),
    "report": frozenset({"evidence", "facts", "finding", "rule"}),
    # The remedies of every rule that unmounts a filesystem name what uses it.
    "engine": frozenset({"evidence", "facts", "finding", "rule", "remedies", "report"}),
    "policy": frozenset({"evidence", "facts", "finding", "rule", "report", "policy"}),
    "planning": frozenset("evidence facts layout finding rule report planning".split()),
    "fixing": frozenset("evidence facts finding rule report remedies fixing".split()),
    "probing": frozenset("evidence facts layout probing".split()),
    # A report contains the facts that a renderer prints; renderers reach them only through it.
    "renderers": frozenset(
        {"evidence", "facts", "finding", "rule", "report", "policy", "renderers"}
    ),
    "api": EVERYTHING - {"cli", "renderers", "probing"},
    "testing": EVERYTHING - {"cli", "renderers", "probing"} | {"api"},
    "cli": EVERYTHING | {"api"},
    "__main__": frozenset({"cli"}),
    "__init__": frozenset("api evidence facts finding report rule rules sources".split()),
}
WITH_A_SHARED_ROOM = frozenset({"renderers", "rules"})
"""Rooms in which each folder may import `shared` and no other: a new format or family needs no
entry below."""
SUB_ROOMS: dict[str, frozenset[str]] = {
    # sub-room: other sub-rooms that it may import, in addition to the modules of its room
    "assemble/devices": frozenset(),
    "assemble/image": frozenset({"devices"}),
    "assemble/options": frozenset(),
    "assemble/planned": frozenset({"options"}),
    "cli/fleet": frozenset({"policy", "terminal"}),
    "cli/plans": frozenset(),
    "cli/policy": frozenset({"terminal"}),
    "cli/terminal": frozenset(),
    "facts/knowledge": frozenset(),
    "renderers/html": frozenset({"shared", "json_v1"}),
    "renderers/shared": frozenset(),
    "rules/shared": frozenset(),
    "sources/ansible": frozenset({"snapshot"}),
    "sources/archive": frozenset({"containers"}),
    "sources/containers": frozenset(),
    "sources/live": frozenset(),
    "sources/snapshot": frozenset({"containers"}),
}
EVERYBODY_MAY_IMPORT = {"__version__", "lazily", "shortage_of"}
THIRD_PARTY_ROOMS = {
    "ansible": {"sources"},
    "ansible_runner": {"sources"},
    "click": {"cli"},
    "jinja2": {"renderers"},
    "psutil": {"sources"},
    "rich": {"renderers", "cli"},
    "pyudev": {"sources"},
    "subprocess": {"sources"},
    "yaml": {"cli"},
}
OF_EXTRAS = {"ansible", "ansible_runner", "psutil", "yaml"}
LOADED_BY_ANSIBLE = PACKAGE / "sources/ansible/snapshot_action.py"
FORBIDDEN_IN_PURE_ROOMS = {"os", "pathlib", "time", "socket", "random", "fcntl"}
READING_A_CLOCK = {"now", "today", "utcnow", "fromtimestamp"}
"""Methods of datetime that depend on the clock or the time zone of the machine."""
PURE_ROOMS = {
    "facts",
    "knowledge",
    "layout",
    "parsers",
    "assemble",
    "remedies",
    "rules",
    "rule",
    "engine",
} | {
    "policy",
    "fixing",
}
BOUNDARIES = {
    "evidence.py": 1,
    "engine.py": 1,
    "policy/site_rules.py": 1,
    "__main__.py": 1,  # before cli can be imported
    "cli/__init__.py": 1,
    "sources/ansible/snapshot_action.py": 1,  # raised again after the clients have ended
    "sources/timeouts.py": 1,  # raised again in the process that waits for the answer
}
SHELL = re.compile(
    r"^(?:debugfs|dumpe2fs|e2fsck|echo|findmnt|grep|mount|printf|resize2fs|rm|sed|sysctl|test"
    r"|tune2fs|umount|until) [-{!]"
    r"|\|\||&&|\$\(|\| (?:awk|sed|tr) |\bgrep -q|> ?/(?:dev|etc|proc|sys)/|2>"
)
"""Text that occurs in commands and not in sentences. `{}` replaces the values of an f-string."""
OF_REMEDIES_ONLY = {
    "ext4audit.finding.Step",
    "ext4audit.finding.Phase",
    "ext4audit.remedies.verify_steps",
    "ext4audit.remedies.quote",
}
MOST_NAMES_IN_A_FOLDER = 22
MOST_NAMES_IN_TESTS = 26
UNCOUNTED = {"__pycache__", "py.typed", "conftest.py"}

MOST_LINES = 400


def room(path: Path) -> str:
    """Return the room of a module: its top folder, or its own name at the top level."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return the nodes of a module's syntax tree."""
    return tuple(ast.walk(ast.parse(path.read_text())))


@pytest.fixture(scope="module", autouse=True)
def _forgotten() -> Iterator[None]:
    """Free the cached syntax trees after these tests: all of them take 80 MB."""
    yield
    nodes.cache_clear()


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Return the full dotted names that a module imports anywhere, also by `lazily`."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and _calls(node, "lazily"):
            module, name = node.args
            if isinstance(module, ast.Constant) and isinstance(name, ast.Constant):
                yield f"ext4audit.{module.value!s}.{name.value!s}"
            else:
                assert room(path) == "cli", f"{path} computes what it imports"


def test_imports_only_go_down() -> None:
    """A module imports only from the rooms that the table allows for its room."""
    reached: dict[str, set[str]] = {}
    for path in MODULES:
        ours = [name.split(".") for name in imports(path) if name.startswith("ext4audit")]
        targets = {parts[1] for parts in ours if len(parts) > 1} - EVERYBODY_MAY_IMPORT
        if beyond := targets - MAY_IMPORT[room(path)]:
            reached[str(path.relative_to(PACKAGE))] = beyond
    assert reached == {}


FOLDERS = sorted(
    f"{path.parent.name}/{path.name}"
    for path in PACKAGE.glob("*/*")
    if path.is_dir() and any(path.glob("*.py"))
)


@pytest.mark.parametrize("sub_room", FOLDERS)
def test_sub_rooms_import_only_what_the_table_allows(sub_room: str) -> None:
    """A family of rules imports no other family, and a format no other format."""
    parent, _, name = sub_room.partition("/")
    neighbours = {each.name for each in (PACKAGE / parent).iterdir() if each.is_dir()}
    shared = frozenset({"shared"} if parent in WITH_A_SHARED_ROOM else ())
    allowed = SUB_ROOMS.get(sub_room, shared) | {name}
    for path in (PACKAGE / sub_room).rglob("*.py"):
        for imported in imports(path):
            parts = imported.split(".")
            if parts[:2] == ["ext4audit", parent] and len(parts) > 2 and parts[2] in neighbours:
                assert parts[2] in allowed, f"{path} reaches {imported}"


def test_every_sub_room_is_in_the_table() -> None:
    """A new folder must declare what it may import, unless its room has one for what is shared."""
    declared = [each for each in FOLDERS if each.partition("/")[0] not in WITH_A_SHARED_ROOM]
    assert set(declared) <= SUB_ROOMS.keys() <= set(FOLDERS)


def test_third_party_imports_stay_in_their_room() -> None:
    """Click, rich, pyudev and subprocess are each imported in one room only."""
    for path in MODULES:
        for name in imports(path):
            top = name.split(".", maxsplit=1)[0]
            assert room(path) in THIRD_PARTY_ROOMS.get(top, {room(path)}), f"{path} imports {name}"


def test_what_an_extra_brings_is_imported_by_the_function_that_needs_it() -> None:
    """Without the extra, --help and the error that names the extra still work."""
    for path in (each for each in MODULES if each != LOADED_BY_ANSIBLE):
        for node in ast.parse(path.read_text()).body:
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not OF_EXTRAS & {name.partition(".")[0] for name in names}, path


def test_pure_rooms_cannot_reach_the_machine() -> None:
    """Facts, parsers, assembly, layout and rules import nothing that does I/O or reads a clock."""
    for path in (each for each in MODULES if room(each) in PURE_ROOMS):
        reached = {name.split(".", maxsplit=1)[0] for name in imports(path)}
        assert not reached & FORBIDDEN_IN_PURE_ROOMS, path
        assert not any(map(_calls_open, nodes(path))), path
        assert not any(map(_reads_a_clock, nodes(path))), path


def _calls_open(node: ast.AST) -> bool:
    return _calls(node, "open")


def _reads_a_clock(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr in READING_A_CLOCK
        and isinstance(node.value, ast.Name)
        and node.value.id in {"date", "datetime"}
    )


def _calls(node: ast.AST, name: str) -> bool:
    """Return whether a node calls a function by its bare name."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def literals(path: Path) -> Iterator[str]:
    """Yield the strings of a module except docstrings; `{}` replaces the values of f-strings."""
    documents = {node.value for node in nodes(path) if isinstance(node, ast.Expr)}
    parts = {
        part for node in nodes(path) if isinstance(node, ast.JoinedStr) for part in node.values
    }
    for node in set(nodes(path)) - documents - parts:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            filled = (
                part.value if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
            yield "".join(map(str, filled))


def test_no_rule_builds_a_command() -> None:
    """A rule judges and describes the change; remedies/ builds the commands that make it."""
    for path in (PACKAGE / "rules").rglob("*.py"):
        reached = {
            each
            for name in imports(path)
            for each in OF_REMEDIES_ONLY
            if f"{name}.".startswith(f"{each}.")
        }
        assert not reached, path
        assert not [text for text in literals(path) if SHELL.search(text)], path


TEXTS_OF_COMMANDS = frozenset(
    "command undo done rollback undo_by_unmount last_resort forced forced_undo again "
    "audited".split()
)
"""Names of the texts of commands: attributes of a step and of a change, and variables."""
SEARCHES = frozenset(
    "startswith endswith find rfind index count split rsplit partition rpartition splitlines "
    "removeprefix removesuffix replace translate search match fullmatch findall finditer sub subn "
    "fnmatch fnmatchcase".split()
)
"""Functions that look into a text, or change what they find there."""
SEARCHED = {
    ("fixing/composition.py", "_replaced"): "replaces a mount command that the step declares",
    ("renderers/shared/commands.py", "_is_parted"): "the grammar of the shell, for any command",
}
"""Functions that search the text of a command, and why that decides nothing by its spelling."""
ROOMS_OF_COMMANDS = frozenset(
    "engine finding fixing planning policy remedies renderers report rule rules".split()
)


def test_steps_are_built_of_commands_that_name_their_programs() -> None:
    """Mypy refuses a text where `remedies.step` takes a command; `Step` takes texts alone."""
    found = {
        str(path.relative_to(PACKAGE))
        for path in MODULES
        for node in nodes(path)
        if _calls(node, "Step")
    }
    assert found == {"finding.py", "remedies/__init__.py"}


def test_nothing_is_decided_by_the_text_of_a_command() -> None:
    """A field of the step says what is decided; a search knows some spellings only."""
    found = {
        (str(path.relative_to(PACKAGE)), name)
        for path in MODULES
        if room(path) in ROOMS_OF_COMMANDS
        for name in searching(ast.parse(path.read_text()))
    }
    assert found == set(SEARCHED)


Named = dict[str, bool]
"""The names of texts of commands, and whether each is a collection of texts."""


def searching(tree: ast.AST) -> Iterator[str]:
    """Yield the names of functions that search texts of commands, also in derived variables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            named: Named = {**dict.fromkeys(TEXTS_OF_COMMANDS, False), "commands": True}
            nodes = list(ast.walk(node))
            while more := {
                k: v for each in nodes for k, v in _derived(each, named) if k not in named
            }:
                named |= more
            if any(_searches(each, named) for each in nodes):
                yield node.name


def _derived(node: ast.AST, named: Named) -> Iterator[tuple[str, bool]]:
    """Yield the names that a node gives to texts, and whether they are collections."""
    match node:
        case ast.Assign(targets=[target], value=value) | ast.NamedExpr(target=target, value=value):
            is_collection = isinstance(target, ast.Name) and _is_collection(value, named)
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            is_collection = False
        case _:
            return
    if _has_text(value, named):
        names = (each for each in ast.walk(target) if isinstance(each, ast.Name))
        yield from ((each.id, is_collection) for each in names)


COLLECTIONS = ast.Tuple | ast.List | ast.Set | ast.GeneratorExp | ast.ListComp | ast.SetComp


def _is_collection(node: ast.AST, named: Named) -> bool:
    return isinstance(node, COLLECTIONS) or named.get(getattr(node, "id", ""), False)


def _has_text(node: ast.AST, named: Named) -> bool:
    """Return whether an expression is a text of a command, or is made of such."""
    if isinstance(node, ast.Attribute | ast.Name):
        return (node.attr if isinstance(node, ast.Attribute) else node.id) in named
    return any(_has_text(each, named) for each in _made_of(node))


def _made_of(node: ast.AST) -> Sequence[ast.AST]:
    """Return the parts of an expression that its value consists of."""
    match node:
        case (
            ast.Tuple(elts=parts)
            | ast.List(elts=parts)
            | ast.Set(elts=parts)
            | ast.JoinedStr(values=parts)
            | ast.BoolOp(values=parts)
        ):
            return parts
        case ast.GeneratorExp(elt=part) | ast.ListComp(elt=part) | ast.SetComp(elt=part):
            return (part,)
        case ast.FormattedValue(value=part) | ast.Starred(value=part):
            return (part,)
        case ast.BinOp(left=one, right=other) | ast.IfExp(body=one, orelse=other):
            return one, other
        case ast.Call(func=ast.Attribute(value=part, attr="join" | "lower" | "strip"), args=parts):
            return part, *parts
    return ()


def _searches(node: ast.AST, named: Named) -> bool:
    """Return whether a node searches a text: `x in step.command`, or a function of SEARCHES.

    Whether a collection has a text is no search: texts are equal as a whole.
    """
    match node:
        case ast.Compare(ops=ops, comparators=others):
            pairs = zip(ops, others, strict=True)
            return any(
                isinstance(op, ast.In | ast.NotIn)
                and _has_text(each, named)
                and not _is_collection(each, named)
                for op, each in pairs
            )
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=parts):
            wanted = name in SEARCHES or ast.unparse(node.func) == "shlex.split"
            return wanted and any(_has_text(each, named) for each in (value, *parts))
    return False


@pytest.mark.parametrize(
    "text",
    [
        'any("tune2fs" in step.command for step in steps)',
        "re.search(PATTERN, step.command)",
        "PATTERN.findall(step.undo or step.undo_by_unmount)",
        'step.done.startswith("mountpoint")',
        'text = step.command\n  text.partition(" ")',
        'text = "\\n".join(f"{s.command}\\n{s.rollback}" for s in steps)\n  {*text.split()}',
        'for each in (step.command, step.undo):\n    PATTERN.sub("", each)',
        "shlex.split(change.again)",
        '[each for each in commands if each.startswith("umount ")]',
    ],
)
def test_the_test_sees_searches_in_commands(text: str) -> None:
    """It also follows variables within a function."""
    assert [*searching(ast.parse(f"def f(commands):\n  {text}"))] == ["f"]
    clean = "run(step.command); 'a' in step.programs; x in {s.command for s in steps}"
    assert [*searching(ast.parse(f"def f(step):\n  {clean}"))] == []


def test_assembly_asks_only_through_the_catalogue() -> None:
    """Assembly builds asks and does not depend on the source that answers them."""
    sources = {path.stem for path in (PACKAGE / "sources").iterdir()}
    for path in (PACKAGE / "assemble").rglob("*.py"):
        for name in imports(path):
            _, room, *rest = f"{name}.".split(".")
            assert room != "sources" or rest[0] not in sources, f"{path} imports {name}"


READERS = {
    "cli/files.py": "within 20 s and a limit of bytes",
    "cli/policy/trusted.py": "the same, and only what root or the caller wrote",
    "cli/fleet/one_host.py": "/proc/self/statm",
    "cli/probe.py": "the boot ID, in /proc",
    "cli/output.py": "appends to the summary of a step",
}
"""The modules of the command line that open files: within which limits, or which files."""


def test_named_files_are_read_within_limits() -> None:
    """A path on a dead server blocks open(2) forever: one function reads all user-named files.

    os.open() is allowed: it opens /dev/null.
    """
    found = {
        str(path.relative_to(PACKAGE))
        for path in (PACKAGE / "cli").rglob("*.py")
        if any(map(_opens_a_file, nodes(path)))
    }
    assert found == set(READERS)


def _opens_a_file(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    if isinstance(called, ast.Name):
        return _calls_open(node)
    if not isinstance(called, ast.Attribute) or ast.unparse(called) == "os.open":
        return False
    return called.attr in {"open", "read_bytes", "read_text"}


def test_except_exception_stands_only_at_the_boundaries() -> None:
    """A blanket except occurs once at each boundary and nowhere else."""
    found: dict[str, int] = {}
    for path in MODULES:
        for node in nodes(path):
            if isinstance(node, ast.ExceptHandler) and _is_blanket(node):
                key = str(path.relative_to(PACKAGE))
                found[key] = found.get(key, 0) + 1
    assert found == BOUNDARIES


def _is_blanket(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    return bool(names & {"Exception", "BaseException"})


def test_rules_read_numbers_by_a_function_that_knows_their_limits() -> None:
    """int() raises ValueError for thousands of digits, which a hostile archive may contain."""
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in MODULES
        if room(path) in {"rules", "remedies"}
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and node.attr in {"isdigit", "isdecimal", "isnumeric"}
    ]
    assert not found


def test_an_unknown_becomes_a_default_only_by_a_name_that_says_so() -> None:
    """Only `absent_means`, `for_wording` and `is_surely` replace unknowns; no inline `if` does."""
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in MODULES
        if room(path) in {"assemble", "facts", "rules"}
        for node in nodes(path)
        if isinstance(node, ast.IfExp) and _takes_a_value(node)
    ]
    assert not found


def _takes_a_value(node: ast.IfExp) -> bool:
    """Return whether a node is `x.value if isinstance(x, Known) else …`, or the reverse."""
    asked = {each.id for each in ast.walk(node.test) if isinstance(each, ast.Name)}
    branches = (each for branch in (node.body, node.orelse) for each in ast.walk(branch))
    taken = any(isinstance(each, ast.Attribute) and each.attr == "value" for each in branches)
    return "isinstance" in asked and bool(asked & {"Known", "Unknown"}) and taken


UNKNOWN_GIVES_A_CONSTANT = {
    "assemble/devices/__init__.py": {"_dm", "_loop"},
    "assemble/image/__init__.py": {"superblock_at"},
    "assemble/inventory.py": {"_has_no_ext4"},
    "assemble/options/__init__.py": {"kernel_default", "_unlisted_layer", "stripe_of"},
    "assemble/planned/simulation.py": {"simulated"},
    "assemble/planned/superblock.py": {"_disagreement"},
    "assemble/superblock.py": {"read_uuid"},
    "facts/host.py": {"filesystem"},
    "rules/compatibility/cmp003_fstab_unstable_device.py": {"_disks", "_uuid", "_is_shared"},
    "rules/compatibility/cmp005_raid0_multizone_layout.py": {"_cite_parameter"},
    "rules/durability/__init__.py": {"still_claims_write_back"},
    "rules/durability/dur002_hidden_superblock_default.py": {"_string"},
    "rules/durability/dur009_norecovery_mount.py": {"_cite_features"},
    "rules/layout/lay003_stripe_oddity.py": {"_costs_cpu"},
    "rules/layout/lay007_bigalloc_clusters.py": {"_stripe"},
    "rules/performance/__init__.py": {"_device_bytes"},
    "rules/performance/prf012_sync_mount.py": {"_removable"},
    "rules/security/sec003_reserved_uid.py": {"_cite_reserve"},
    "rules/shared/__init__.py": {
        "what_else_sets_it",
        "_table_would_show",
        "cite_features",
        "cite_discard",
    },
    "rules/shared/error_state.py": {"cite_errors"},
    "rules/shared/quantities.py": {"cite_space"},
}
"""Functions that return a constant for an unknown: it omits a citation, softens a sentence, or
makes the caller look elsewhere. For each new entry, show that no verdict depends on it."""


def test_no_function_returns_a_constant_for_an_unknown() -> None:
    """`if isinstance(x, Unknown): return False` would be another spelling of `value_or`."""
    found: dict[str, set[str]] = {}
    for path in filter(_decides, MODULES):
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef) and any(map(_gives_constant, ast.walk(node))):
                found.setdefault(str(path.relative_to(PACKAGE)), set()).add(node.name)
    assert found == UNKNOWN_GIVES_A_CONSTANT


UNDETERMINED_MET = {
    "rules/layout/lay009_overlapping_devices.py",
    "layout/stack.py",
    "rules/layout/lay004_partition_misaligned.py",
    "rules/compatibility/cmp007_vendor_demand.py",
}
"""Modules that catch Undetermined for one part while they judge others, and keep its unknowns."""
UNDETERMINED_DROPPED = {
    "rules/shared/error_state.py",
    "rules/performance/prf002_auto_da_alloc_stall.py",  # of filesystems other than the judged one
}
"""Modules that drop the unknowns: unless HLT002 surely reports a stop, the calling rule judges."""


def test_no_other_spelling_takes_a_value() -> None:
    """`getattr(x, "value", …)`, `case Known(v)` and `try: need(x) except: …` are not allowed."""
    met, dropped = set[str](), set[str]()
    for path in (each for each in MODULES if _decides(each) or room(each) == "layout"):
        for node in nodes(path):
            other = _takes_by_name(node) or _matches_evidence(node)
            assert not other, f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.ExceptHandler) and "Undetermined" in _names(node.type):
                kept = any(_is_attribute(each, "unknowns") for each in ast.walk(node))
                (met if kept else dropped).add(str(path.relative_to(PACKAGE)))
    assert (met, dropped) == (UNDETERMINED_MET, UNDETERMINED_DROPPED)


@pytest.mark.parametrize(
    "text",
    [
        "if isinstance(x, Unknown): return False",
        "if not isinstance(x, Known): return None",
        "if a or isinstance(x, Unknown): return ()",
        'y = getattr(x, "value", 1)',
        "match x:\n  case Known(v): y = v",
        "match x:\n  case Unknown(): y = 1",
    ],
)
def test_the_test_sees_other_spellings(text: str) -> None:
    """The checks find each of the forbidden spellings."""
    nodes = list(ast.walk(ast.parse(text)))
    checks = (_gives_constant, _takes_by_name, _matches_evidence)
    assert any(check(node) for node in nodes for check in checks)


def _decides(path: Path) -> bool:
    return room(path) in {"assemble", "facts", "rules"}


def _names(node: ast.AST | None) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} if node else set()


def _is_attribute(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name


def _takes_by_name(node: ast.AST) -> bool:
    """Return whether a node is `getattr(x, "value", …)`."""
    return _calls(node, "getattr") and "'value'" in ast.unparse(node)


def _matches_evidence(node: ast.AST) -> bool:
    return isinstance(node, ast.MatchClass) and ast.unparse(node.cls) in {"Known", "Unknown"}


def _gives_constant(node: ast.AST) -> bool:
    """Return whether it is `if isinstance(x, Unknown): return <constant>`, or `not … Known`."""
    if not isinstance(node, ast.If) or len(node.body) != 1:
        return False
    test, (first,) = ast.unparse(node.test), node.body
    unknown = re.search(r"(?<!not )isinstance\([^()]*(?:\([^()]*\))*[^()]*, Unknown\)", test)
    without = re.search(r"not \(?isinstance\(.*, Known\)", test)
    return bool(unknown or without) and isinstance(first, ast.Return) and _is_constant(first.value)


def _is_constant(node: ast.expr | None) -> bool:
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return not node.elts
    return node is None or isinstance(node, ast.Constant)


def test_the_top_level_of_the_tree_stays_as_designed() -> None:
    """There are no files and folders other than these and dot-files."""
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


def test_a_folder_holds_about_twenty_names() -> None:
    """A folder with more names is divided into sub-rooms."""
    assert not {path: count for path, count in names_in(PACKAGE) if count > MOST_NAMES_IN_A_FOLDER}


def test_a_folder_of_tests_holds_about_twenty_names() -> None:
    """The top of tests/ may have more: a folder for each room of the package, and some others."""
    top, *folders = names_in(TESTS)
    assert top[1] <= MOST_NAMES_IN_TESTS
    assert not {path: count for path, count in folders if count > MOST_NAMES_IN_A_FOLDER}


def names_in(top: Path) -> Iterator[tuple[str, int]]:
    """Yield each folder and how many names it contains."""
    folders = (path for path in top.rglob("*") if path.is_dir() and path.name != "__pycache__")
    for folder in (top, *folders):
        names = {entry.name for entry in folder.iterdir()} - UNCOUNTED
        yield str(folder.relative_to(top)), len(names)


def test_limits_of_the_machine_are_set_by_one_module() -> None:
    """Parallel tests would overwrite each other's limits; this module lets them take turns."""
    sets = re.compile(r'\brun(?:_shell)?\(\s*f?"sysctl\b[^)]*-q?w\b')
    assert sets.search('run("sysctl", "-qw", "vm.x=1")')
    found = {str(path.relative_to(TESTS)) for path in TESTS.rglob("*.py") if has(path, sets)}
    in_a_machine_of_their_own = {name for name in found if name.startswith("lab/")}
    assert found - in_a_machine_of_their_own - {"test_house.py"} == {
        "support/remedies/dirty_limits.py"
    }


def test_numbers_of_examples_are_set_by_one_module() -> None:
    """It gives CI all examples and other runs a share; a test's own settings would bypass it."""
    sets = re.compile(r"(?m)^from hypothesis import .*\bsettings\b|\bhypothesis\.settings\b")
    assert sets.search("from hypothesis import given, settings\n")
    found = {str(path.relative_to(TESTS)) for path in TESTS.rglob("*.py") if has(path, sets)}
    assert found - {"test_house.py"} == {"conftest.py", "support/examples.py"}


def test_ci_has_all_examples() -> None:
    """If CI had only a share of them, no run would have all."""
    assert "\nexport HYPOTHESIS_PROFILE=same " in (TESTS.parent / ".ci" / "run").read_text()
    assert settings.get_profile("same").max_examples == ALL_PERCENT
    assert settings.get_profile("same").derandomize


def has(path: Path, pattern: re.Pattern[str]) -> bool:
    """Return whether the text of a file matches a pattern."""
    return bool(pattern.search(path.read_text()))


def test_modules_stay_small() -> None:
    """A module has at most 400 lines; a longer one has more than one topic."""
    assert [path for path in MODULES if len(path.read_text().splitlines()) > MOST_LINES] == []


LEAST_BODY = 160
"""Characters in the dump of a body's syntax tree; a shorter body is a call or an attribute."""
TWICE = frozenset({"unknown_object", "_unknown"})
"""Allowed duplicates: the JSON of reports and that of snapshots have separate versions."""


def test_no_function_is_written_twice() -> None:
    """A function that two modules need is in one of them, or in a module that both may import."""
    places: dict[str, list[str]] = {}
    for path in MODULES:
        tree, *_ = nodes(path)
        assert isinstance(tree, ast.Module)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name not in TWICE:
                places.setdefault(_body_of(node), []).append(f"{path.name}: {node.name}")
    same = [found for body, found in places.items() if len(body) > LEAST_BODY and len(found) > 1]
    assert same == []


def _body_of(function: ast.FunctionDef) -> str:
    """Return the body without its docstring, as text that is equal for equal code."""
    body = function.body[ast.get_docstring(function) is not None :]
    return ast.dump(ast.Module(body, []))


LEAST_TABLE = 3
TABLES_TWICE = frozenset({"STOPPING"})
"""Allowed duplicates: a probe has the same signals as a fleet's run, but they are unrelated."""


def test_no_table_is_written_twice() -> None:
    """If one module may import the other, a second copy will sooner or later differ."""
    tables = [table for path in MODULES for table in _tables(path)]
    pairs = [
        f"{one.name}: {name}, {other.name}: {other_name}"
        for (one, name, value), (other, other_name, same) in combinations(tables, 2)
        if one != other and value == same and _is_importable(room(one), room(other))
    ]
    assert pairs == []


def _tables(path: Path) -> Iterator[tuple[Path, str, object]]:
    """Yield the path, name and value of each constant of a module that has several values."""
    tree, *_ = nodes(path)
    assert isinstance(tree, ast.Module)
    assigned = [node.targets[0] for node in tree.body if isinstance(node, ast.Assign)]
    assigned += [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    names = [node.id for node in assigned if isinstance(node, ast.Name) and node.id.isupper()]
    module = (
        import_module(
            ".".join(("ext4audit", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(
                ".__init__"
            )
        )
        if names
        else None
    )
    for name in set(names) - TABLES_TWICE:
        value = getattr(module, name)
        if isinstance(value, (tuple, frozenset, Mapping)) and len(value) >= LEAST_TABLE:
            yield path, name, value


TABLE = '"/proc/self/mountinfo"'


def _is_importable(one: str, other: str) -> bool:
    return one == other or other in MAY_IMPORT[one] or one in MAY_IMPORT[other]


def test_the_path_of_the_mount_table_is_written_once() -> None:
    """Rules cite it, sources read it, and the engine puts the file that was read in its place."""
    found = [str(path.relative_to(PACKAGE)) for path in MODULES if TABLE in path.read_text()]
    assert found == ["evidence.py"]


PRIVATE_WORDS = re.compile(
    r"\b(?:holes?|(?:tells?|told) (?:it |them |two )?apart|condemned|covering|counsel(?!\")"
    r"|sinks?|blind spots?|informational)\b"
)
"""Words for which the field has its own: gap or unknown, distinguished, discouraged, advice; and
a severity, which reports call info."""


def test_terms_are_those_of_the_field() -> None:
    """Readers know the terms from the kernel, e2fsprogs and mount(8)."""
    pages = (*TESTS.parent.glob("docs/*.md"), *TESTS.parent.glob("*.md"))
    texts = (*MODULES, *TESTS.rglob("*.py"), *PACKAGE.rglob("templates/*"), *pages)
    found = {str(path): PRIVATE_WORDS.findall(path.read_text()) for path in texts}
    del found[__file__]
    assert {name: words for name, words in found.items() if words} == {}
