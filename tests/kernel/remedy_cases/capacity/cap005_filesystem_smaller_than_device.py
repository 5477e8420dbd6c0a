"""CAP005: a device that grew under a mounted filesystem."""

from __future__ import annotations

from kernel.test_online_resize import may_resize
from support.remedies.case import RemedyCase, Stage
from support.scratch import run

NOT_RUN = (
    "Growing a mounted filesystem needs CAP_SYS_RESOURCE, which the root of a container may lack: "
    "there tests/lab/scenarios/capacity_remedies.py alone runs it."
)


def enlarge(stage: Stage) -> None:
    """Make the device larger than the filesystem."""
    run("truncate", "-s", "4G", stage.image)
    run("losetup", "--set-capacity", stage.device)


CASES = (
    (
        RemedyCase(
            name="online",
            remedy="Grow it",
            size="1G",
            prepare=enlarge,
            restores=False,
        ),
    )
    if may_resize()
    else ()
)
