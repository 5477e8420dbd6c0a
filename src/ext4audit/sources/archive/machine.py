"""What the host of an archive is: a virtual machine or a container, as systemd-detect-virt says.

Each text can be missing, cut or in a timeout's words, so all of them are looked at: hostnamectl,
lscpu and the kernel's messages. One that names a hypervisor counts more than one that names none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ext4audit.evidence import Known
from ext4audit.sources.archive.capture import Capture, Output, output_of

CONTAINERS = frozenset(
    {"openvz", "lxc", "lxc-libvirt", "systemd-nspawn", "docker", "podman", "rkt", "wsl", "proot"}
    | {"pouch", "container-other"}
)
"""What `systemd-detect-virt --container` prints (systemd 257)."""
_HOSTNAMECTL = ("hostnamectl status", "hostnamectl")
_MESSAGES = ("dmesg", "dmesg -T", "dmesg_now")
_ARCHITECTURE = re.compile(r"^[ \t]*Architecture:[ \t]+(\S+)", re.MULTILINE)
_NAMED = re.compile(r"^[ \t]*(?:Virtualization|Hypervisor vendor):[ \t]+(\S+)", re.MULTILINE)
_FLAGS = re.compile(r"^Flags:(.*)\n", re.MULTILINE)
_HYPERVISOR = re.compile(r"\bhypervisor\b")
_DETECTED = re.compile(
    r"^(?:\[[^\]\n]*\] )?(?:Hypervisor detected:|systemd\[1\]: Detected virtualization) ([\w-]+)",
    re.MULTILINE,
)
_FEATURES = frozenset({"vt-x", "amd-v"})
"""lscpu's own "Virtualization:" is what the processor can, not what the host is."""
_X86 = frozenset({"x86_64", "x86-64", "i686", "i586", "i386"})


def hypervisor(capture: Capture) -> Known[str] | None:
    """Return what `systemd-detect-virt --vm` prints, None where no text tells."""
    reported = list(_reported(capture))
    machines = [each for each in reported if each.value not in {*CONTAINERS, "none"}]
    physical = [each for each in reported if each.value == "none"]
    return next(iter([*machines, *physical]), None)


def container(capture: Capture) -> Known[str] | None:
    """Return the kind of container that systemd detected, None where it detected none.

    The kernel's messages are no proof: they are the host's, and those of all its containers.
    """
    reported = _status(capture)
    return reported if reported and reported.value in CONTAINERS else None


def _status(capture: Capture) -> Known[str] | None:
    """Return what hostnamectl tells; an output that is cut off tells nothing."""
    status = output_of(capture, *_HOSTNAMECTL)
    complete = _ARCHITECTURE.search(status.text)
    return Known(_name(status, "none"), status.origin) if complete else None


def _reported(capture: Capture) -> Iterator[Known[str]]:
    status = _status(capture)
    if status:
        yield status
    processor = output_of(capture, "lscpu")
    architecture = _ARCHITECTURE.search(processor.text)
    if architecture:
        name = _name(processor, _by_flags(processor, architecture[1]))
        if name:
            yield Known(name, processor.origin)
    messages = output_of(capture, *_MESSAGES)
    found = _DETECTED.search(messages.text)
    if found:
        yield Known(found[1].lower(), messages.origin)


def _by_flags(processor: Output, architecture: str) -> str:
    """Return what the processor's flags show of a hypervisor, "" where they are not all there.

    Only on x86 does a hypervisor set one. An output that ends before them, or among them, tells
    nothing.
    """
    flags = _FLAGS.search(processor.text)
    if flags is None or architecture not in _X86:
        return ""
    return "vm-other" if _HYPERVISOR.search(flags[1]) else "none"


def _name(output: Output, otherwise: str) -> str:
    names = (name.lower() for name in _NAMED.findall(output.text))
    return next((name for name in names if name not in _FEATURES), otherwise)
