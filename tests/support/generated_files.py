"""The generated files of share/, and how a folder of generated files is written and read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ext4audit.cli import PROGRAM
from ext4audit.cli.completion import script
from support.man_pages import pages

SHARE = Path(__file__).parents[2] / "share"
"""As it lies in an installation: the wheel copies it below the prefix."""


def generated() -> Mapping[str, str]:
    """Return the text of every file by its path below share/."""
    return {
        f"bash-completion/completions/{PROGRAM}": script("bash"),
        f"zsh/site-functions/_{PROGRAM}": script("zsh"),
        f"fish/vendor_completions.d/{PROGRAM}.fish": script("fish"),
        **{f"man/man{name[-1]}/{name}": text for name, text in pages().items()},
    }


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Write the files of a folder that differ, since other tests read them; remove all others."""
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        if str(path.relative_to(folder)) not in texts:
            path.unlink()
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def written(folder: Path) -> Mapping[str, str]:
    """Return the text of every file in a folder by its path below it."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in paths}


if __name__ == "__main__":
    write(SHARE, generated())
