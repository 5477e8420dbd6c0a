"""The generated files of share/, and how a folder of generated files is written and read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ext4audit.cli.app import COMMANDS, PROGRAM
from ext4audit.cli.completion import script
from ext4audit.cli.policy_file import NAME
from man_pages import command_page, page_name, program_page
from man_policy import policy_page

SHARE = Path(__file__).parents[1] / "share"
"""As it lies in an installation: the wheel copies it below the prefix."""


def generated() -> Mapping[str, str]:
    """Return the text of every file by its path below share/."""
    pages = {f"man/man1/{page_name(name)}.1": command_page(name) for name in COMMANDS}
    return {
        f"bash-completion/completions/{PROGRAM}": script("bash"),
        f"zsh/site-functions/_{PROGRAM}": script("zsh"),
        f"fish/vendor_completions.d/{PROGRAM}.fish": script("fish"),
        f"man/man1/{PROGRAM}.1": program_page(),
        **pages,
        f"man/man5/{NAME}.5": policy_page(),
    }


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Write the files of a folder, and remove all others."""
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        if str(path.relative_to(folder)) not in texts:
            path.unlink()
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def written(folder: Path) -> Mapping[str, str]:
    """Return the text of every file in a folder by its path below it."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in paths}


if __name__ == "__main__":
    write(SHARE, generated())
