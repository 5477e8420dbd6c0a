"""The files of share/: `python tests/generated_files.py` makes them anew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ext4audit.cli.app import PROGRAM
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


def write() -> None:
    """Write the files, and remove those of what is no more."""
    texts = generated()
    for path in [path for path in SHARE.rglob("*") if path.is_file()]:
        if str(path.relative_to(SHARE)) not in texts:
            path.unlink()
    for name, text in texts.items():
        (SHARE / name).parent.mkdir(parents=True, exist_ok=True)
        (SHARE / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
