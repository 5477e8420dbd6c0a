"""Change one operator or number of the package at a time, and run the unit tests of its module.

`uv run --with cosmic-ray python tests/mutation/sample.py 60` tries 60 mutants of the packages in
ROOMS. A second argument is the seed of the sample; further ones are the packages to sample, as in
`60 0 rules layout`. cosmic-ray provides the operators. Mutants are written to a temporary copy of
the package. The exit code is 1 when fewer than 90 % are killed.
"""

from __future__ import annotations

import ast
import compileall
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import NamedTuple, TypeAlias

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "src/ext4audit"
ROOMS = (
    *("rules", "layout", "assemble", "policy", "remedies"),
    *("fixing", "probing", "renderers/text"),
)
LEAST_KILLED_PERCENT = 90
TIMEOUT_SECONDS = 300
"""The limit for each file or folder of tests. On a busy machine a folder may take longer than one
file; a mutant that only makes the tests slow must not count as killed."""
OPERATORS = (
    *("NumberReplacer", "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceUnaryOperator_Delete_Not"),
    *("ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "AddNot", "ZeroIterationForLoop"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak"),
    *(
        f"ReplaceComparisonOperator_{change}"
        for change in "Lt_LtE LtE_Lt Gt_GtE GtE_Gt Eq_NotEq NotEq_Eq Is_IsNot IsNot_Is".split()
    ),
    *(
        f"ReplaceBinaryOperator_{change}"
        for change in "Add_Sub Sub_Add Mul_FloorDiv FloorDiv_Mul Mod_FloorDiv".split()
    ),
)
"""No operator on `|`: most mutants would change annotations, which are never evaluated."""
STRICT_ZIP = re.compile(r"\bstrict=(True|False)\b")
"""zip() of equally long sequences, on which ruff requires the argument."""


Parts: TypeAlias = tuple[tuple[Path, ...], tuple[Path, ...]]
"""The tests close to a module, and more distant ones."""


class Mutant(NamedTuple):
    """The nth place in a module that an operator can change."""

    module: Path
    operator: str
    occurrence: int
    line: int

    def __str__(self) -> str:
        """Return the place and the change as text."""
        return f"src/ext4audit/{self.module}:{self.line} {self.operator} #{self.occurrence}"


def main(count: int, seed: int, rooms: Sequence[str]) -> bool:
    """Try mutants and print the survivors; return whether enough are killed."""
    sample = random.Random(seed).sample(list(mutants(rooms)), count)  # noqa: S311 - reproducible
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "ext4audit"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(copy, quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
        tests = {mutant: tests_of(mutant.module) for mutant in sample}
        parts = (part for near_and_far in tests.values() for part in near_and_far)
        together = tuple(sorted({path for part in parts for path in part}))
        failure = failure_of(copy, together, len(together) * TIMEOUT_SECONDS)
        if failure:
            raise SystemExit(f"The tests fail without a mutation: {failure}")
        killed = sum(is_killed(copy, mutant, tests[mutant]) for mutant in sorted(sample))
    print(f"{killed} of {count} mutants killed ({100 * killed / count:.0f} %), seed {seed}")
    return 100 * killed >= LEAST_KILLED_PERCENT * count


def mutants(rooms: Sequence[str]) -> Iterator[Mutant]:
    """Yield mutants of packages that can change what a module does."""
    for path in modules(rooms):
        text = path.read_text()
        nodes = list(ast_nodes(get_ast(text)))
        for name in OPERATORS:
            operator = get_operator(f"core/{name}")()
            lines = [start[0] for node in nodes for (start, _) in operator.mutation_positions(node)]
            for occurrence, line in enumerate(lines):
                if not is_idle(text, name, occurrence, line):
                    yield Mutant(path.relative_to(PACKAGE), name, occurrence, line)


def is_idle(text: str, operator: str, occurrence: int, line: int) -> bool:
    """Return whether a mutant is invalid, as for the bare * of a signature, or equivalent."""
    if operator.startswith("ReplaceBinaryOperator_Mul"):
        mutated = mutate_code(text, get_operator(f"core/{operator}")(), occurrence)
        try:
            ast.parse(mutated)
        except SyntaxError:
            return True
    is_flag = operator in {"ReplaceTrueWithFalse", "ReplaceFalseWithTrue"}
    return is_flag and STRICT_ZIP.search(text.splitlines()[line - 1]) is not None


def modules(rooms: Sequence[str] = ROOMS) -> list[Path]:
    """Return the modules of packages."""
    return sorted(path for room in rooms for path in (PACKAGE / room).rglob("*.py"))


def tests_of(module: Path) -> Parts:
    """Return the tests of a module and its importers; those of its folder and its package."""
    is_package = module.stem == "__init__"
    dotted = ".".join((module.parent if is_package else module.with_suffix("")).parts)
    uses = [f"from ext4audit.{dotted} import"]
    if not is_package:  # the bare name of a package also occurs in docstrings
        uses += [f" {dotted}.", f"({dotted}."]
    texts = {path: path.read_text() for path in modules()}
    users = (path for path, text in texts.items() if any(use in text for use in uses))
    mirrors = [mirror_of(path) for path in (PACKAGE / module, *users)]
    folder = next(path for path in mirrors[0].parents if path.exists())
    of_all = (REPOSITORY / "tests" / module.parts[0]).glob("test_*.py")
    return tuple(path for path in mirrors if path.exists()), (folder, *sorted(of_all))


def mirror_of(path: Path) -> Path:
    """Return where a module's tests are; the tests of a package are named after it."""
    stem = path.parent.name if path.stem == "__init__" else path.stem
    return REPOSITORY / "tests" / path.parent.relative_to(PACKAGE) / f"test_{stem}.py"


def is_killed(copy: Path, mutant: Mutant, tests: Parts) -> bool:
    """Write a mutant into the copy, run its tests, and restore the module.

    Most mutants are killed by the close tests, and the distant ones are not even imported.
    """
    module = copy / mutant.module
    original = module.read_text()
    operator = get_operator(f"core/{mutant.operator}")()
    module.write_text(mutate_code(original, operator, mutant.occurrence))
    survives = not any(
        failure_of(copy, part, len(part) * TIMEOUT_SECONDS) for part in tests if part
    )
    module.write_text(original)
    print(f"{'SURVIVED' if survives else 'killed'} {mutant}", flush=True)
    return not survives


def failure_of(copy: Path, tests: tuple[Path, ...], timeout_seconds: int) -> str:
    """Return the test that fails with the copy of the package, or "" if all pass.

    A test that does not end counts as failed.
    """
    options = "-x -q -n 0 -p no:cacheprovider --hypothesis-seed=0".split()
    environment = {
        "PYTHONPATH": str(copy.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_PROFILE": "no-deadline",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(copy.parent / "hypothesis"),
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, "-m", "not kernel and not bench", *tests],
            cwd=REPOSITORY,
            env=os.environ | environment,
            timeout=timeout_seconds,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no end within {timeout_seconds} s"
    if done.returncode == 0:
        return ""
    lines = (done.stdout + done.stderr).strip().splitlines()
    named = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
    return (named or lines or [f"pytest exited with {done.returncode}"])[-1]


if __name__ == "__main__":
    count, seed, *rooms = [*sys.argv[1:], *("60", "0")[len(sys.argv) - 1 :]]
    sys.exit(not main(int(count), int(seed), rooms or ROOMS))
