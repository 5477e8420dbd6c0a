"""Every command in README.md and docs/ runs, and the outputs shown there are up to date."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.docs.pages import (
    PAGES,
    SHELL,
    TRANSCRIPT,
    Block,
    Exchange,
    blocks,
    exchanges,
    name,
    transcript,
    with_outputs,
)
from support.docs.sandbox import MOUNT_POINT, NOT_RUN, SANDBOX_HOSTS, DocsSandbox, failure
from support.program import run_new

E2FSPROGS = "mke2fs 1.47"
"""The mke2fs version that made the filesystems shown in the outputs of `layout` and `plan`."""

ADDED = ("jq",)
"""Programs used in the examples, apart from ours, that may not be installed."""


def parts_of(page: Path) -> list[Exchange]:
    """Return the commands of a page in their order, with their outputs."""
    text = page.read_text(encoding="utf-8")
    return [part for block in blocks(text, SHELL, TRANSCRIPT) for part in exchanges(block)]


def bare(command: str) -> str:
    """Return a command without its trailing comment."""
    return re.sub(r"\s+# .*$", "", command)


def needs_mount(command: str) -> bool:
    """Return whether a command names the mount point of the examples."""
    return re.search(rf"\s{MOUNT_POINT}(?:\s|$)", command) is not None


@pytest.fixture
def scene(tmp_path: Path) -> DocsSandbox:
    """Return a directory in which a page's commands run."""
    return DocsSandbox(tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_run(page: Path, scene: DocsSandbox, *, accept: bool) -> None:
    """The commands run in the order of the page, and their outputs match the page."""
    text = page.read_text(encoding="utf-8")
    if _depends_on_e2fsprogs(text) and not _e2fsprogs():
        pytest.skip("needs mke2fs")
    skip_without_programs_of(text)
    scene.write_files(text)
    commands = [part.command for part in parts_of(page)]
    here = [each for each in commands if bare(each) not in NOT_RUN and not needs_mount(each)]
    done = {command: scene.run(command) for command in here}
    assert [wrong for each in here if (wrong := failure(each, done[each]))] == []
    fresh = with_outputs(text, lambda command: done[command].stdout)
    if accept:
        page.write_text(fresh, encoding="utf-8")
    if not accept and _depends_on_e2fsprogs(text) and not _e2fsprogs().startswith(E2FSPROGS):
        pytest.skip(f"the outputs of {name(page)} need {E2FSPROGS}")
    assert page.read_text(encoding="utf-8") == fresh


def skip_without_programs_of(text: str) -> None:
    """Skip the test if a program that starts a command or follows a pipe is not installed."""
    named = [tool for tool in ADDED if re.search(rf"(?:^|\| ){tool} ", text, re.MULTILINE)]
    missing = [tool for tool in named if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")


def _depends_on_e2fsprogs(text: str) -> bool:
    """Return whether a page shows outputs about a filesystem made by mke2fs."""
    shown = "".join(block.text for block in blocks(text, TRANSCRIPT))
    return re.search(r"^\$ ext4audit (?:layout|plan) ", shown, re.MULTILINE) is not None


def _e2fsprogs() -> str:
    """Return the version that mke2fs prints, or "" if it is not installed."""
    if shutil.which("mke2fs") is None:
        return ""
    return subprocess.run(["mke2fs", "-V"], capture_output=True, text=True, check=False).stderr


MOUNTING = [page for page in PAGES if any(needs_mount(part.command) for part in parts_of(page))]


@pytest.mark.kernel
@pytest.mark.parametrize("page", MOUNTING, ids=name)
def test_commands_on_a_mounted_filesystem_run(page: Path, scene: DocsSandbox) -> None:
    """The commands run in a private mount namespace with an ext4 filesystem on /srv."""
    commands = [part.command for part in parts_of(page) if needs_mount(part.command)]
    skip_without_programs_of("\n".join(commands))
    failures = [failure(command, scene.run_mounted(command)) for command in commands]
    assert [each for each in failures if each] == []


@pytest.mark.parametrize("command", ["--version", "scna", f"scan --from hosts/{SANDBOX_HOSTS[1]}"])
def test_program_of_the_sandbox_is_the_real_one(command: str, scene: DocsSandbox) -> None:
    """A copy of a loaded process prints the same and exits with the same code as a new process."""
    copy = scene.run(f"ext4audit {command}")
    new = run_new(*command.split(), cwd=scene.root)
    assert (copy.returncode, copy.stdout, copy.stderr) == (new.returncode, new.stdout, new.stderr)


def test_every_reason_not_to_run_a_command_is_needed() -> None:
    """A command that was removed from the pages needs no reason."""
    shown = {bare(part.command) for page in PAGES for part in parts_of(page)}
    assert set(NOT_RUN) - shown == set()


def test_commands_stand_in_blocks_that_are_run() -> None:
    """Every block has a known language, and blocks of plain text contain no commands."""
    known = ("sh", "console", "yaml", "cron", "ini", "toml", "python", "mermaid", "text")
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        fences = len(re.findall(r"^```", text, re.MULTILINE))
        assert fences == 2 * len(blocks(text, *known)), name(page)
        plain = "".join(block.text for block in blocks(text, "text"))
        assert not re.search(r"^\$ |^(?:sudo )?ext4audit ", plain, re.MULTILINE)


def test_writing_outputs_twice_changes_nothing() -> None:
    """A page that has its outputs stays unchanged, to the last blank line."""
    page = "a\n\n```console\n$ one\nold\n$ two \\\n    x\n```\n\nb\n\n```sh\nthree\n```\n"
    once = with_outputs(page, lambda command: f"output of {command[:3]}\n")
    assert once == page.replace("old\n", "output of one\n").replace("x\n", "x\noutput of two\n")
    assert with_outputs(once, lambda command: f"output of {command[:3]}\n") == once


def test_commands_are_read_as_a_shell_reads_them() -> None:
    """Continued lines form one command, and comment lines none."""
    block = Block("sh", "# note\none \\\n  two\n\nthree  # said\n", 0, 0)
    assert [part.command for part in exchanges(block)] == ["one \\\n  two", "three  # said"]
    shown = Block("console", "$ one\nx\n$ two\n", 0, 0)
    assert exchanges(shown) == [Exchange("one", "x\n"), Exchange("two", "")]
    assert transcript(exchanges(shown)) == shown.text


@pytest.mark.parametrize(
    ("command", "code", "fine"),
    [
        ("ext4audit scan", 3, True),
        ("ext4audit scan", 2, False),
        ("uv run ext4audit scan --from x", 1, True),
        ('sudo "$(command -v ext4audit)" scan', 1, True),
        ("ext4audit scan x | jq .", 1, False),
        ("ext4audit scan || test $? -eq 3", 1, False),
        ("ext4audit layout x", 1, False),
        ("mkdir x", 1, False),
    ],
)
def test_only_results_are_allowed_beside_success(command: str, code: int, *, fine: bool) -> None:
    """A finding or a gap ends a scan with 1 or 3; any other failure is an error."""
    done = subprocess.CompletedProcess(["sh"], code, "", "")
    assert (failure(command, done) is None) == fine
