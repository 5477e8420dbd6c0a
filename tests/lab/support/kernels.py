"""Debian kernels for the lab: downloaded as packages and only unpacked, never installed.

Four eras of ext4 option tables come from one archive: 5.10, 6.1, 6.12 and the newest. The
archive's address comes from the machine's own apt sources.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ext4audit-lab"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
MODULES = (
    "virtio_pci virtio_blk 9p 9pnet_virtio overlay ext4 raid0 raid1 raid10 raid456 linear dm-mod "
    "dm-crypt dm-snapshot dm-thin-pool dm-raid loop nvme scsi_debug sd_mod aesni_intel aes_generic "
    "ecb xts dm-multipath dm-round-robin"
).split()


@dataclass(frozen=True, slots=True)
class LabKernel:
    """A kernel era of ext4: its name in the lab, the Debian suite that has it, its release."""

    era: str
    suite: str
    release: str


KERNELS = {
    kernel.era: kernel
    for kernel in (
        LabKernel("5.10", "bullseye", r"5\.10\.0-\d+-amd64"),
        LabKernel("6.1", "bookworm", r"6\.1\.0-\d+-amd64"),
        LabKernel("6.12", "bookworm-backports", r"6\.12\.\d+\+.*-amd64"),
        LabKernel("newest", "sid", r"7\.\d+.*-amd64"),
    )
}


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A kernel on disk: the tree of its package, and the release that names its modules."""

    tree: Path
    release: str

    @property
    def image(self) -> Path:
        """The bootable image, in either of the places where packages put it."""
        old = self.tree / "boot" / f"vmlinuz-{self.release}"
        return old if old.exists() else self.tree / "lib/modules" / self.release / "vmlinuz"

    def modules(self) -> list[Path]:
        """Return the lab's modules and their dependencies, in the order in which to insert them."""
        ordered: dict[Path, None] = {}
        for module in MODULES:
            done = subprocess.run(
                ["modprobe", "-d", self.tree, "-S", self.release, "--show-depends", module],
                capture_output=True,
                text=True,
                check=False,
            )
            for line in done.stdout.splitlines():
                if line.startswith("insmod "):
                    ordered[Path(line.split()[1])] = None
        return list(ordered)


def unpack(kernel: LabKernel) -> Unpacked:
    """Return a kernel from the cache; download and unpack it first if it is missing."""
    tree = CACHE / kernel.era
    found = _release_in(tree)
    if found is None:
        shutil.rmtree(tree, ignore_errors=True)
        work = CACHE / f"{kernel.era}.part"
        shutil.rmtree(work, ignore_errors=True)
        for package in _download(kernel, work):
            _run("dpkg", "-x", package, work / "tree")
        # Newer packages use /usr/lib/modules; modprobe -d and depmod -b look below /lib.
        if not (work / "tree" / "lib").exists():
            (work / "tree" / "lib").symlink_to("usr/lib")
        found = _release_in(work / "tree")
        assert found is not None, f"the packages of {kernel.era} hold no kernel"
        _run("depmod", "-b", work / "tree", found)
        (work / "tree").rename(tree)  # last: an interrupted download is not a kernel
        shutil.rmtree(work)
    return Unpacked(tree, found)


def _release_in(tree: Path) -> str | None:
    releases = sorted((tree / "lib" / "modules").glob("*"))
    return releases[-1].name if releases else None


def _download(kernel: LabKernel, work: Path) -> list[Path]:
    """Download the newest image package of the era, with a private apt state.

    Since 7.x the image package only depends on packages of the same release with the files.
    """
    state = work / "apt"
    for name in ("lists/partial", "cache/archives/partial"):
        (state / name).mkdir(parents=True)
    (state / "status").touch()
    (state / "sources.list").write_text(_source_lines(kernel.suite))
    options = [
        f"Dir::State={state}",
        f"Dir::State::lists={state}/lists",
        f"Dir::State::status={state}/status",
        f"Dir::Cache={state}/cache",
        f"Dir::Etc::sourcelist={state}/sources.list",
        "Dir::Etc::sourceparts=-",
        "APT::Sandbox::User=root",
        "Acquire::Languages=none",
    ]
    apt = [word for option in options for word in ("-o", option)]
    _run("apt-get", "-q", *apt, "update")
    names = _run("apt-cache", *apt, "pkgnames", "linux-image-").split()
    wanted = re.compile(rf"linux-image-(?:unsigned-)?{kernel.release}")
    matching = [n for n in names if wanted.fullmatch(n) and "-cloud-" not in n and "-rt-" not in n]
    assert matching, f"no kernel of {kernel.era} in {kernel.suite}"
    newest = max(matching, key=lambda name: ("unsigned" not in name, _numbers(name)))
    suffix = newest.removeprefix("linux-image-").removeprefix("unsigned-")
    depends = _run("apt-cache", *apt, "depends", newest).split()
    parts = {name for name in depends if name.startswith("linux-") and name.endswith(suffix)}
    _run("apt-get", "-q", *apt, "download", *sorted(parts | {newest}), cwd=work)
    return sorted(work.glob("*.deb"))


def _source_lines(suite: str) -> str:
    """Return sources for a suite, from the address that this machine's apt uses."""
    listed = _run("apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages")
    sites = sorted({site for site in listed.split() if "security" not in site})
    assert sites, "apt has no package sources"
    return f"deb [signed-by={KEYRING}] {sites[0]} {suite} main\n"


def _numbers(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]


def _run(*argv: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, cwd=cwd
    )
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout
