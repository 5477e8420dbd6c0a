"""What all tests share: which of them can run here, and the private mount namespace."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import traceback
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from ext4audit.sources import timeouts
from support import launcher
from support.filesystems.mounts import detach_unneeded_mounts, enter_private_namespace
from support.program import steers_the_program
from support.remedies import dirty_limits
from support.scheduler import ByFunction

# A busy machine is no failure of a property: hypothesis gives each example 200 ms by default, and
# calls data slow to draw when a core is shared.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# In CI the examples are the same each time: what fails there fails here. Whoever runs the tests
# without it draws new ones, an eighth of them: the examples of CI take a minute.
settings.register_profile("same", settings.get_profile("unhurried"), derandomize=True)
settings.register_profile("eighth", settings.get_profile("unhurried"), max_examples=12)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "eighth"))

# Whoever runs the tests under nohup or in the background of a shell has these ignored, and
# every process that a test starts inherits it: Ctrl-C and a hang-up would then be no events.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

# Whoever runs the tests may have set options of the program, colours or a language for themselves.
for name in filter(steers_the_program, list(os.environ)):
    del os.environ[name]

# Debian gives users a PATH without the folders of mke2fs, dumpe2fs and losetup.
os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])

HAS_PRIVATE_MOUNTS = pytest.StashKey[bool]()
# Hundreds of tests start the program: without kept bytecode each of them compiles it anew. Some
# environments, containers above all, forbid to write it.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

ASKED_FOR = ("bench", "lab", "packages", "fleet")
"""The marks of tests that run only where `-m` names them: they take long, or need much."""
ALONE = ("kernel", "browser", "shells")
"""The marks of tests that run one after the other. Those of the kernel have groups beside it: tests
of remedies change no more than their own device, and look at no other; some tests only wait."""

LONGEST_ID = 60
"""Characters of a parameter in the id of its test: texts that attack a parser have millions."""
CLONE = f"{Path(__file__).parents[1]}/"


PART = os.environ.get("EXT4AUDIT_PART", "1/1")
"""The part of the test functions to run, "2/3" for the second third: which ones is decided by
their names, so that the parts of several runs are all of them."""


WORKER = "PYTEST_XDIST_WORKER"
"""The variable that pytest-xdist sets in its workers."""
REQUIRED = os.environ.get("EXT4AUDIT_REQUIRE_KERNEL") == "1"
"""In CI a test that needs the real kernel must run: a skip would read as a pass."""


def why_no_kernel() -> str | None:
    """Return why tests of the real kernel cannot run here, None if they can."""
    if os.geteuid() != 0:
        return "needs root to mount loop devices"
    if not Path("/dev/loop-control").exists():
        return "needs loop devices"
    if "ext4" not in Path("/proc/filesystems").read_text().split():
        return "needs a kernel with ext4"
    return None


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """Skip a test whose program is not installed, by the program's name: CI has them all."""
    with skipped_without_its_program():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup() -> Generator[None, object, object]:
    """Skip it where the program of a fixture is not installed."""
    with skipped_without_its_program():
        return (yield)


@contextmanager
def skipped_without_its_program() -> Iterator[None]:
    """Turn subprocess's error for a bare name that PATH does not have into a skip."""
    try:
        yield
    except FileNotFoundError as error:
        *_, last = traceback.walk_tb(error.__traceback__)
        is_program = last[0].f_code.co_filename == subprocess.__file__
        if REQUIRED or not is_program or shutil.which(str(error.filename)) is not None:
            raise
        pytest.skip(f"needs {error.filename}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what keeps new expected outputs."""
    parser.addoption(
        "--accept", action="store_true", help="write expected and generated files anew"
    )


@pytest.fixture(scope="session")
def accept(pytestconfig: pytest.Config) -> bool:
    """Whether expected outputs are written anew instead of compared."""
    return bool(pytestconfig.getoption("--accept"))


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a parameter by what is the same in every process that collects it.

    An id is kept, sent and compared. Bytes that are no text are named by their number: what is
    compressed or archived holds the time of that. A long text is shortened, and so is a path in
    this clone. pytest adds a number to what is equal; None leaves the id to it.
    """
    if isinstance(val, bytes):
        if not val.isascii() or not val.decode("ascii").isprintable():
            return f"{len(val)} bytes"
        val = val.decode("ascii")
    if not isinstance(val, str) or (len(val) <= LONGEST_ID and CLONE not in val):
        return None
    val = val.replace(CLONE, "")
    return val if len(val) <= LONGEST_ID else f"{ascii(val[:LONGEST_ID])[1:-1]}, {len(val)} in all"


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Run in one process what is measured, written anew, or named file by file.

    None leaves it to the variable of pytest-xdist.
    """
    alone = config.option.markexpr in ASKED_FOR or config.getoption("--accept")
    files = [arg for arg in config.args if arg.partition("::")[0].endswith(".py")]
    if alone or files:
        return 0
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    # Tests wait for processes, and those of the kernel for it, most of their time.
    has_kernel = "not kernel" not in config.option.markexpr and why_no_kernel() is None
    return len(os.sched_getaffinity(0)) + 1 + has_kernel


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage meanwhile: there is hardly any, and each time all tests are looked at."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what was asked for, group what must not run beside its like, skip what cannot run.

    Tests of one group run in one worker (`--dist loadgroup`): loop devices are seen by the whole
    machine, and one browser serves all of its tests.
    """
    unasked = frozenset(ASKED_FOR) - frozenset(re.findall(r"\w+", config.option.markexpr))
    kept: list[pytest.Item] = []
    deselected: list[pytest.Item] = []
    for item in items:
        is_kept = _is_in_part(item) and unasked.isdisjoint(_marks(item))
        (kept if is_kept else deselected).append(item)
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = kept
    for item in items:
        marks = _marks(item)
        name = next((name for name in ALONE if name in marks), None)
        if name is not None and "xdist_group" not in marks:
            item.add_marker(pytest.mark.xdist_group(name))
    if WORKER in os.environ:  # a group is one unit of work, and takes long: it is begun first
        items.sort(key=lambda item: "xdist_group" not in _marks(item))
    reason = why_no_kernel()
    if reason is None or REQUIRED:
        return
    for item in items:
        if item.get_closest_marker("kernel"):
            item.add_marker(pytest.mark.skip(reason=reason))


def _marks(item: pytest.Item) -> set[str]:
    """Return the names of all marks of a test, which takes as long as to look for one."""
    return {mark.name for mark in item.iter_markers()}


def _is_in_part(item: pytest.Item) -> bool:
    """Whether this run has the function of a test, by EXT4AUDIT_PART."""
    number, parts = map(int, PART.split("/"))
    return zlib.crc32(item.nodeid.partition("[")[0].encode()) % parts == number - 1


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFunction:
    """Give a worker all tests of a function at once."""
    return ByFunction(config, log)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse to spread over workers what must not run beside its like.

    The group is a suffix of the node's id (pytest-xdist); pytest 9.2 keeps the id elsewhere.
    """
    # What was collected stays: a collection of garbage need not look at it, and what tests keep is
    # looked at rarely.
    gc.freeze()
    gc.set_threshold(gc.get_threshold()[0] * 400)
    if WORKER not in os.environ:
        return
    for item in session.items:
        group = item.get_closest_marker("xdist_group")
        if group and not item.nodeid.endswith(f"@{group.args[0]}"):
            raise pytest.UsageError(f"pytest-xdist does not keep {item.nodeid} in {group.args[0]}")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Move this process into a mount namespace of its own; it dies with the process.

    From here on the mounts that tests and the programs they run can see are known, and stay as
    they are. Only root may do so.
    """
    with suppress(OSError):
        enter_private_namespace()
        detach_unneeded_mounts(Path(session.config.option.basetemp or "/").absolute())
        session.config.stash[HAS_PRIVATE_MOUNTS] = True


HELPER = timeouts.BoundedCalls()
"""The calls of all tests that need no helper of their own, in one process for each worker."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let the audits of tests share a helper, which is a copy of the launcher and so small.

    This process holds 14,000 tests. A test with `monkeypatch` can replace what a helper does: its
    helpers are copies of this process, as a user's are of theirs.
    """
    fixtures = getattr(item, "fixturenames", ())
    timeouts.fork_helper = launcher.start_helper
    if "monkeypatch" in fixtures:
        timeouts.fork_helper = launcher.fork_helper
    if not {"monkeypatch", "own_helpers"}.isdisjoint(fixtures):
        return (yield)
    with timeouts.shared(HELPER):
        return (yield)


def pytest_sessionfinish() -> None:
    """End the helper while the interpreter is whole."""
    HELPER.end()


@pytest.fixture
def own_helpers() -> None:
    """Have a helper for each audit, as a program that imports the library has."""


@pytest.fixture(scope="session")
def private_mounts(pytestconfig: pytest.Config) -> None:
    """Fail where the tests of this session have no mount namespace of their own."""
    assert pytestconfig.stash.get(HAS_PRIVATE_MOUNTS, False), "no right to unshare the mounts"


@pytest.fixture
def steady_limits() -> Iterator[None]:
    """Keep the machine's limits of dirty memory as they are, for who compares two looks at it."""
    with dirty_limits.steady_limits():
        yield
