"""Every printed remedy is run: it cures the finding, lasts, and its rollback undoes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ext4audit.rule import Rule
from support.filesystems.scratch import run
from support.remedies.case import LoopMount, RemedyCase, all_cases, run_steps

CASES = all_cases()
WAIT = {"HLT009", "PRF006"}
"""Rules whose cases wait: e2fsprogs waits 11 s per change of a filesystem with mmp, the kernel for
its lazy initialization."""


def group(rule: Rule, number: int) -> pytest.MarkDecorator:
    """Return the mark of cases that run serially: two groups of those that do not wait."""
    half = f"remedies {number % 2}"
    return pytest.mark.xdist_group("waits" if rule.code in WAIT else half)


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("rule", "case"),
    [
        pytest.param(rule, case, id=f"{rule.code}: {case.name}", marks=group(rule, number))
        for number, (rule, case) in enumerate(CASES)
    ],
)
def test_remedy_fixes_and_rollback_restores(
    rule: Rule, case: RemedyCase, tmp_path: Path, etc: Path
) -> None:
    """The rule fails before and passes after the printed commands; the rollback restores all."""
    with loop_mount_of(case, tmp_path, etc) as loop_mount:
        case.run(rule, loop_mount)


@contextmanager
def loop_mount_of(case: RemedyCase, tmp_path: Path, etc: Path) -> Iterator[LoopMount]:
    """Attach an empty image for a case, and unmount and detach it at the end."""
    image, mount_point = tmp_path / "image", Path(case.at or tmp_path / "data")
    mount_point.mkdir(exist_ok=True)
    run("truncate", "-s", case.size, image)
    device = run("losetup", "--find", "--show", image).strip()
    loop_mount = LoopMount(image, device, mount_point, etc)
    try:
        yield loop_mount
    finally:
        loop_mount.unmount()
        run("losetup", "--detach", device)


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("rule", "case"),
    [
        pytest.param(rule, case, id=f"{rule.code}: {case.name}", marks=group(rule, number))
        for number, (rule, case) in enumerate(CASES)
        if case.mounted and case.fstab is not None and case.alter is None
    ],
)
def test_remedy_outlasts_a_new_mount(
    rule: Rule, case: RemedyCase, tmp_path: Path, etc: Path
) -> None:
    """The rule also passes after the next mount, which reads fstab and the superblock."""
    with loop_mount_of(case, tmp_path, etc) as loop_mount:
        case.set_up(loop_mount)
        run_steps(case.find(case.judge(rule, loop_mount)), loop_mount)
        loop_mount.unmount()
        run("mount", loop_mount.mount_point)
        lasting = case.judge(rule, loop_mount)
        assert lasting.outcome in case.cured, (lasting.outcome, lasting.findings, lasting.note)
