"""A directory in which the commands of README.md and docs/ run as typed.

It contains what the pages mention: `fixtures/`, `snapshots/` of two hosts, `hosts/` with the same,
their names in `inventory.txt`, and two reports to compare. Its `bin/` comes first in PATH:
`ext4audit` is the program under test, `sudo` and `ssh` run their command here, `ansible` captures
this host, `uv run pytest` checks that the tests it names exist, and nothing is installed.
A command that names /srv runs in a private mount namespace, with an ext4 filesystem mounted there.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from support import launcher
from support.docs.pages import ROOT, blocks
from support.hosts.fixture_hosts import HOSTS
from support.program import environment
from support.timing import PATIENCE_SECONDS

SANDBOX_HOSTS = ("healthy-debian-12", "raid0-12-disks-default-mkfs")
MOUNT_POINT = "/srv"
NOT_RUN = {
    "uv run pytest": "it runs the whole suite, this test included",
    "uv run pytest --accept": "the same",
    "uv run pytest -m lab": "it boots kernels; a test of each file in tests/lab is run by CI",
    "EXT4AUDIT_LAB_ERAS=5.10,6.1,6.12,newest uv run pytest -m lab": "the same",
    "uv run pytest -m fleet": "it starts an sshd; CI runs it",
    "uv run pytest -m bench -s": "it measures for minutes; CI runs it",
    "uv run --with cosmic-ray python tests/mutation/sample.py 60": "it runs tests for minutes",
    ".ci/run": "it runs the whole suite",
    ".ci/release --check": "it builds for a minute; CI runs it",
    "uv run pytest -m packages": "it needs what .ci/release builds; CI runs it",
    **dict.fromkeys(
        [
            "sha256sum -c SHA256SUMS",
            "python3 ext4audit.pyz scan",
            "sudo install ext4audit.pyz /usr/local/bin/ext4audit",
            "sudo apt-get install ./ext4audit_0.2.0_all.deb",
            "sudo dnf install ./ext4audit-0.2.0-1.noarch.rpm",
            "uv tool install ./ext4audit-0.2.0-py3-none-any.whl",
            "sudo systemctl enable --now ext4audit.timer",
            "podman build -t ext4audit -f .ci/packages/Containerfile dist",
            'podman run --rm -v "$PWD/hosts:/evidence:ro" ext4audit scan --from /evidence',
        ],
        "tests/end_to_end/packaging does the same, in chroots and environments of its own",
    ),
    "sudo apt-get install python3-pip git": "it changes the machine",
    "pip install 'ext4audit[fleet]'": "it changes the machine",
    **dict.fromkeys(
        (
            "ext4audit fleet -i hosts.ini --become",
            "ext4audit fleet -i hosts.ini -l 'db*' -b -K --keep snapshots/ -f html -o report.html",
            "ext4audit fleet fix -i hosts.ini --select DUR001 --disruption remount",
            "ext4audit fleet fix -i hosts.ini --select DUR001 --disruption remount --apply",
            "ansible-galaxy collection build share/ansible_collections/ext4audit/audit",
        ),
        "tests/cli/fleet does it, with a real sshd",
    ),
    "EXT4AUDIT_FLEET_HOSTS=1000 uv run pytest -m bench -s tests/bench/test_gathering.py": "it "
    "measures for minutes; CI runs it with fewer hosts",
    "ext4audit layout /dev/sdb --members 12 --chunk 256K --level raid5 --offset 1M": "it needs a "
    "disk of a RAID controller",
}
"""The commands that no test runs, with the reasons."""

_CHECK_TEST_PATHS = f"""cd {ROOT} || exit
for word; do
    case "$word" in tests/*) test -e "$word" || exit ;; esac
done
test -z "$EXT4AUDIT_LAB_ONLY" || grep -rqw -e "$EXT4AUDIT_LAB_ONLY" tests/lab"""
"""The replacement of `uv run pytest WORD…`: checks that its paths and its scenario exist."""
_AS_ANSIBLE_TASK = 'import json, sys; print(json.dumps({"stdout": sys.stdin.read()}))'
PROGRAM_SHIMS = {
    "sudo": 'exec "$@"',
    "ansible": "mkdir tree && sh collect.sh --text | "
    f"'{sys.executable}' -c '{_AS_ANSIBLE_TASK}' > tree/db1",
    "ssh": 'shift; exec sh -c "$*"',
    "uv": f"""case "$1 $2" in
    "run ext4audit") shift; exec "$@" ;;
    "run pytest") shift 2; {_CHECK_TEST_PATHS}; exit ;;
    "tool install") exit 0 ;;
esac
echo "not expected: uv $*" >&2; exit 64""",
    "python3": f"""case "$1 $2 $3" in
    "-m pip install") exit 0 ;;
    "-m uv "*) shift 2; exec uv "$@" ;;
esac
exec "{sys.executable}" "$@\"""",
}
"""Replacements of programs that the pages run and that must not act on this machine."""

NAMED_FILE = re.compile(r"(?:#cloud-config\n)?# (\S+\.(?:toml|yaml|ks|py))\n")
"""Matches the first line of an example that is a file, and captures the file name."""
_EXIT_CODES = {"scan": {0, 1, 3}, "plan": {0, 1, 3}, "probe": {0, 1, 3}, "diff": {0, 1}}
"""Allowed exit codes: findings and gaps are results. For other commands, only 0 is allowed."""


class DocsSandbox:
    """The directory, with methods to run commands in it."""

    def __init__(self, root: Path) -> None:
        self._root = self.root = root
        (root / "fixtures").symlink_to(ROOT / "fixtures")
        for fixture in SANDBOX_HOSTS:
            for folder in ("hosts", "snapshots"):
                shutil.copytree(HOSTS / fixture / "snapshot", root / folder / fixture)
        (root / "inventory.txt").write_text("".join(f"{fixture}\n" for fixture in SANDBOX_HOSTS))
        (root / "home").mkdir()
        self._fill_bin(root / "bin")
        for day, fixture in zip(("monday", "friday"), SANDBOX_HOSTS, strict=True):
            (report,) = (HOSTS / fixture).glob("expected.*.json")
            shutil.copy(report, root / f"{day}.json")

    def write_files(self, page: str) -> None:
        """Write the examples of a page that begin with a file name, such as "# store.toml".

        After "#cloud-config", the name is in the second line.
        """
        for block in blocks(page, "toml", "yaml", "text", "python"):
            named = NAMED_FILE.match(block.text)
            if named is not None:
                (self._root / named[1]).write_text(block.text, encoding="utf-8")

    def _fill_bin(self, folder: Path) -> None:
        folder.mkdir()
        for program, body in PROGRAM_SHIMS.items():
            _write_program(folder / program, body)
        _write_program(folder / "ext4audit", f'exec {launcher.shell_command()} "$@"')

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a POSIX shell."""
        env = environment(HOME=str(self._root / "home"))
        env["PATH"] = f"{self._root / 'bin'}:{env['PATH']}"
        return subprocess.run(
            ["sh", "-c", command],
            cwd=self._root,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def run_mounted(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a private mount namespace with an ext4 filesystem on /srv."""
        image = self._root / "srv.img"
        if not image.exists():
            made = self.run(f"truncate -s 1G {image} && mkfs.ext4 -q {image}")
            assert made.returncode == 0, made.stderr
        # A fork of the launcher would see the mounts of the test process.
        _write_program(self._root / "bin/ext4audit", f'exec "{sys.executable}" -m ext4audit "$@"')
        (self._root / "command.sh").write_text(f"{command}\n", encoding="utf-8")
        mount = f"mount -o loop {image} {MOUNT_POINT}"
        return self.run(f"unshare -m sh -c '{mount} && exec sh ./command.sh'")


def _write_program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)


def failure(command: str, done: subprocess.CompletedProcess[str]) -> str | None:
    """Return a message if a command of a page failed, otherwise None."""
    if done.returncode in _allowed(command) and "Traceback" not in done.stderr:
        return None
    return f"{command}\n  exit code {done.returncode}\n{done.stderr or done.stdout[-1000:]}"


def _allowed(command: str) -> set[int]:
    """Return the allowed exit codes of the last program of a command."""
    words = command.rpartition("|")[2].split()
    if "ext4audit" not in command.rpartition("|")[2] or "test $? -eq" in command:
        return {0}
    at = next(index for index, word in enumerate(words) if "ext4audit" in word)
    commands = [word for word in words[at + 1 :] if word.isalpha()]
    return _EXIT_CODES.get(commands[0], {0}) if commands else {0}
