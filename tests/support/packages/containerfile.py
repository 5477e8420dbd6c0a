"""The steps of the Containerfile, run in a chroot instead of a container engine."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import NamedTuple

from support.packages.built import ROOT
from support.packages.chroot import Chroot

CONTAINERFILE = ROOT / ".ci" / "packages" / "Containerfile"


class Image(NamedTuple):
    """A layer, with the user and the entry point of the image."""

    layer: Path
    user: str
    entry_point: list[str]


def build(system: Chroot, context: Path, layer: Path) -> Image:
    """Run each instruction; raises ValueError for one that is not supported here."""
    user, entry_point = "0:0", [""]
    lines = CONTAINERFILE.read_text().splitlines()
    for line in (line for line in lines if line and not line.startswith("#")):
        instruction, _, rest = line.partition(" ")
        match instruction, shlex.split(rest):
            case "FROM", [base]:
                assert base.endswith("/debian:12-slim")
            case "RUN", _:
                system.succeed("sh", "-c", rest)
            case "COPY", [source, target]:
                shutil.copy(context / source, system.root / target.lstrip("/"))
            case "USER", [user]:
                pass
            case "WORKDIR", [folder]:
                (system.root / folder.lstrip("/")).mkdir()
            case "ENTRYPOINT", _:
                entry_point = rest.strip("[]").replace('"', "").split(", ")
            case _:
                raise ValueError(line)
    return Image(layer, user, entry_point)
