"""Every remedy that is printed has been run: it cures the finding, and its rollback undoes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ext4audit.rule import Rule
from support.remedies.case import RemedyCase, Stage, all_cases
from support.scratch import run

CASES = all_cases()


@pytest.mark.kernel
@pytest.mark.xdist_group("remedies")
@pytest.mark.parametrize(
    ("rule", "case"), CASES, ids=[f"{rule.code}: {case.name}" for rule, case in CASES]
)
def test_the_remedy_cures_and_its_rollback_restores(
    rule: Rule, case: RemedyCase, tmp_path: Path, etc: Path
) -> None:
    """FAIL, then the printed commands, then PASS; after the rollback all is as it was."""
    image, mount_point = tmp_path / "image", Path(case.at or tmp_path / "data")
    mount_point.mkdir(exist_ok=True)
    run("truncate", "-s", case.size, image)
    device = run("losetup", "--find", "--show", image).strip()
    stage = Stage(image, device, mount_point, etc)
    try:
        case.run(rule, stage)
    finally:
        stage.unmount()
        run("losetup", "--detach", device)
