"""A scenario that spoils the guest loses its own result only; the rest get another boot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.support.boots import MOST_BOOTS, run_in_boots

NAMES = ("first", "second", "third")


class FakeGuest:
    """Stand-in for lab.support.inside; each scenario ends as "done", "dirty" or "dead"."""

    def __init__(self, results: Path, **endings: str) -> None:
        self.results = results
        self.endings = endings
        self.boots: list[list[str]] = []

    def boot(self, names: Sequence[str]) -> None:
        """Run until a scenario spoils the guest."""
        self.boots.append(list(names))
        for name in names:
            part = self.results / f"{name}.part"
            part.touch()
            ending = self.endings.get(name, "done")
            if ending == "dead":
                return
            part.write_text(json.dumps({"result": {}}))
            part.rename(self.results / f"{name}.json")
            if ending == "dirty":
                return

    def errors(self) -> dict[str, str]:
        """Return the errors by scenario; every scenario has an outcome."""
        outcomes = {name: json.loads((self.results / f"{name}.json").read_text()) for name in NAMES}
        return {name: each["error"] for name, each in outcomes.items() if "error" in each}


@pytest.mark.parametrize(
    ("endings", "boots", "failed"),
    [
        ({}, [[*NAMES]], []),
        ({"first": "dirty"}, [[*NAMES], ["second", "third"]], []),
        ({"third": "dirty"}, [[*NAMES]], []),
        ({"second": "dead"}, [[*NAMES], ["third"]], ["second"]),
        ({"first": "dead", "third": "dead"}, [[*NAMES], ["second", "third"]], ["first", "third"]),
    ],
    ids=["clean", "first dirty", "last dirty", "one dead", "two dead"],
)
def test_the_rest_run_in_a_new_boot(
    tmp_path: Path, endings: dict[str, str], boots: list[list[str]], failed: list[str]
) -> None:
    """One boot runs all scenarios; one that ended the guest is reported under its own name."""
    guest = FakeGuest(tmp_path, **endings)
    run_in_boots(tmp_path, NAMES, guest.boot)
    assert guest.boots == boots
    assert guest.errors() == {
        name: f"{name}: the guest died or hung while it ran" for name in failed
    }


def test_a_kernel_that_never_starts_is_not_booted_for_ever(tmp_path: Path) -> None:
    """If the kernel never starts, every scenario reports that it did not run."""
    guest = FakeGuest(tmp_path)
    boots: list[Sequence[str]] = []
    run_in_boots(tmp_path, NAMES, boots.append)
    assert len(boots) == MOST_BOOTS
    assert guest.errors() == {
        name: f"{name}: it did not run in {MOST_BOOTS} boots" for name in NAMES
    }
