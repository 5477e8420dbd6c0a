"""Shared test setup: selection and scheduling of tests, and the private mount namespace."""

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
from support.program import affects_output
from support.remedies import dirty_limits
from support.scheduler import ByFunction, send_fewer_events

# A property must not fail because the machine is busy: by default, Hypothesis allows 200 ms for
# each example and complains of slow data generation on a shared core.
settings.register_profile(
    "no-deadline", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
# CI draws the same examples each time, so that its failures can be reproduced. Other runs draw new
# examples, and only an eighth as many: those of CI take a minute.
settings.register_profile("same", settings.get_profile("no-deadline"), derandomize=True)
settings.register_profile("eighth", settings.get_profile("no-deadline"), max_examples=12)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "eighth"))

# Under nohup and in the background of a shell these signals are ignored, and every process that a
# test starts inherits this: Ctrl-C and a hang-up would have no effect.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

# The environment of the user may set options of the program, colours or a language.
for name in filter(affects_output, list(os.environ)):
    del os.environ[name]

# Debian gives users a PATH without the folders of mke2fs, dumpe2fs and losetup.
os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])

HAS_PRIVATE_MOUNTS = pytest.StashKey[bool]()
# Hundreds of tests start the program: without cached bytecode each of them compiles it again. Some
# environments, containers above all, disable writing it.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

OPT_IN_MARKS = ("bench", "lab", "packages", "fleet")
"""The marks of tests that run only if `-m` names them: they are slow or need special resources."""
SERIAL_MARKS = ("kernel", "browser", "shells")
"""The marks of tests that run one after the other. Some kernel tests have groups of their own
instead: tests of remedies use only their own device, and others mostly wait."""

MOST_ID_CHARACTERS = 60
"""Maximum characters of a parameter in a test id; texts that attack a parser have millions."""
CLONE_PATH = f"{Path(__file__).parents[1]}/"


PART = os.environ.get("EXT4AUDIT_PART", "1/1")
"""The part of the test functions to run, such as "2/3" for the second third. A hash of its name
assigns each function to a part, so all parts together run every function."""


WORKER = "PYTEST_XDIST_WORKER"
"""The variable that pytest-xdist sets in its workers."""
REQUIRED = os.environ.get("EXT4AUDIT_REQUIRE_KERNEL") == "1"
"""Whether tests that need the real kernel must run, as in CI: a skip would read as a pass."""


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
    """Skip a test that runs a program that is not installed; CI has all programs."""
    with skipped_without_its_program():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup() -> Generator[None, object, object]:
    """Skip a test whose fixture runs a program that is not installed."""
    with skipped_without_its_program():
        return (yield)


@contextmanager
def skipped_without_its_program() -> Iterator[None]:
    """Turn the FileNotFoundError of subprocess for a program that is not in PATH into a skip."""
    try:
        yield
    except FileNotFoundError as error:
        *_, last = traceback.walk_tb(error.__traceback__)
        is_program = last[0].f_code.co_filename == subprocess.__file__
        if REQUIRED or not is_program or shutil.which(str(error.filename)) is not None:
            raise
        pytest.skip(f"needs {error.filename}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that rewrites expected outputs."""
    parser.addoption(
        "--accept", action="store_true", help="write expected and generated files anew"
    )


@pytest.fixture(scope="session")
def accept(pytestconfig: pytest.Config) -> bool:
    """Return whether expected outputs are rewritten instead of compared."""
    return bool(pytestconfig.getoption("--accept"))


def pytest_make_parametrize_id(val: object) -> str | None:
    """Return an id for a parameter that is the same in every process that collects it.

    Ids are stored, sent and compared. Binary data is named by its length, because compressed data
    and archives contain the time at which they were made. Long texts are shortened, and paths in
    this clone become relative. pytest numbers equal ids; None leaves the id to pytest.
    """
    if isinstance(val, bytes):
        if not val.isascii() or not val.decode("ascii").isprintable():
            return f"{len(val)} bytes"
        val = val.decode("ascii")
    if not isinstance(val, str) or (len(val) <= MOST_ID_CHARACTERS and CLONE_PATH not in val):
        return None
    val = val.replace(CLONE_PATH, "")
    return (
        val
        if len(val) <= MOST_ID_CHARACTERS
        else f"{ascii(val[:MOST_ID_CHARACTERS])[1:-1]}, {len(val)} in all"
    )


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Return 0, for one process, if tests measure, rewrite files, or are given as files.

    None leaves the number to the PYTEST_XDIST_AUTO_NUM_WORKERS variable of pytest-xdist.
    """
    alone = config.option.markexpr in OPT_IN_MARKS or config.getoption("--accept")
    files = [arg for arg in config.args if arg.partition("::")[0].endswith(".py")]
    if alone or files:
        return 0
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    # Most of the time, tests wait for processes, and kernel tests wait for the kernel.
    has_kernel = "not kernel" not in config.option.markexpr and why_no_kernel() is None
    return len(os.sched_getaffinity(0)) + 1 + has_kernel


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Disable garbage collection meanwhile: it visits all tests and finds hardly any garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the requested tests, group those that must not run in parallel, skip the impossible.

    Tests of one group run in one worker (`--dist loadgroup`): the whole machine shares its loop
    devices, and one browser serves all browser tests.
    """
    opted_out = frozenset(OPT_IN_MARKS) - frozenset(re.findall(r"\w+", config.option.markexpr))
    kept: list[pytest.Item] = []
    deselected: list[pytest.Item] = []
    for item in items:
        is_kept = _is_in_part(item) and opted_out.isdisjoint(_marks(item))
        (kept if is_kept else deselected).append(item)
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = kept
    for item in items:
        marks = _marks(item)
        name = next((name for name in SERIAL_MARKS if name in marks), None)
        if name is not None and "xdist_group" not in marks:
            item.add_marker(pytest.mark.xdist_group(name))
    if WORKER in os.environ:  # a group is one long unit of work, so it must start first
        items.sort(key=lambda item: "xdist_group" not in _marks(item))
    reason = why_no_kernel()
    if reason is None or REQUIRED:
        return
    for item in items:
        if item.get_closest_marker("kernel"):
            item.add_marker(pytest.mark.skip(reason=reason))


def _marks(item: pytest.Item) -> set[str]:
    """Return the names of all marks of a test; a search for a single mark takes as long."""
    return {mark.name for mark in item.iter_markers()}


def _is_in_part(item: pytest.Item) -> bool:
    """Return whether EXT4AUDIT_PART includes the function of a test in this run."""
    number, parts = map(int, PART.split("/"))
    return zlib.crc32(item.nodeid.partition("[")[0].encode()) % parts == number - 1


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFunction:
    """Return a scheduler that gives a worker all tests of a function at once."""
    return ByFunction(config, log)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Raise UsageError if pytest-xdist would spread the tests of one group over several workers.

    The group is a suffix of the node id (pytest-xdist); pytest 9.2 stores the id elsewhere.
    """
    # Collected tests stay alive: freeze() exempts them from garbage collection, and the higher
    # threshold makes it visit the objects that tests keep less often.
    gc.freeze()
    gc.set_threshold(gc.get_threshold()[0] * 400)
    if WORKER not in os.environ:
        return
    for item in session.items:
        group = item.get_closest_marker("xdist_group")
        if group and not item.nodeid.endswith(f"@{group.args[0]}"):
            raise pytest.UsageError(f"pytest-xdist does not keep {item.nodeid} in {group.args[0]}")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Move this process into a private mount namespace, which ends with the process.

    From here on, the mounts that tests and their programs see are known and do not change.
    Requires root; other users stay in the namespace of the host.
    """
    with suppress(OSError):
        enter_private_namespace()
        detach_unneeded_mounts(Path(session.config.option.basetemp or "/").absolute())
        session.config.stash[HAS_PRIVATE_MOUNTS] = True
    if WORKER in os.environ:
        send_fewer_events(session.config)


HELPER = timeouts.BoundedCalls()
"""The helper process of this worker, shared by all tests that need no helper of their own."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let the audits of tests share a helper, which is a fork of the small launcher process.

    This process is large: it holds 14,000 tests. A test with `monkeypatch` may replace what a
    helper does, so its helpers are forks of this process, as they are outside of tests.
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
    """End the helper before the interpreter shuts down."""
    HELPER.end()


@pytest.fixture
def own_helpers() -> None:
    """Start a helper for each audit, as in a program that imports the library."""


@pytest.fixture(scope="session")
def private_mounts(pytestconfig: pytest.Config) -> None:
    """Fail if the tests of this session have no private mount namespace."""
    assert pytestconfig.stash.get(HAS_PRIVATE_MOUNTS, False), "no right to unshare the mounts"


@pytest.fixture
def steady_limits() -> Iterator[None]:
    """Keep the machine's dirty memory limits unchanged while a test compares two audits of it."""
    with dirty_limits.steady_limits():
        yield
