"""Read system facts from an archive: kernel, memory, host name, time, and virtualization.

Virtual machines and containers are named as by systemd-detect-virt. Any source of this fact may be
missing, truncated or the message of a timeout, so hostnamectl, lscpu and the kernel messages are
all examined. A text that names a hypervisor takes precedence over one that names none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timezone

from ext4audit.evidence import UNDATED, Known
from ext4audit.sources.archive.capture import Capture, Output, output_of, text_of

LONGEST_UNAME = 1024
"""Enough for six fields of at most 64 bytes (uname(2)); limits the cost of the pattern."""

_UNAME = re.compile(r"Linux (?P<node>.*?) (?P<release>\d+\.\d+\S*) (?P<version>#.*) \S+\s*")
_PROC_VERSION = re.compile(r"Linux version (?P<release>\S+) .*?(?P<version>#\d.*)\s*")
_MEMINFO = re.compile(r"^(\w+):\s+(\d{1,15}) kB$", re.MULTILINE)
_FREE = re.compile(r"^Mem:\s+(\d{1,19})(?:\s+\d+){4}\s+(\d{1,19})\s*$", re.MULTILINE)
_CLOCK = re.compile(
    r"\w{3} (?P<month>\w{3}) {1,2}(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d) (?:UTC|GMT) "
    r"(?P<year>\d{4})"
)
_UNIVERSAL = re.compile(r"Universal time: \w{3} (\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC")
_STARTED = re.compile(r'"start_time": "(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)')
_IN_NAME = re.compile(r"(?<!\d)(20\d\d)-?([01]\d)-?([0-3]\d)(?:([0-2]\d)([0-5]\d)([0-5]\d))?(?!\d)")
_SHORT = re.compile(r"_(\d\d)([01]\d)([0-3]\d)_([0-2]\d)([0-5]\d)(?!\d)")


def uname(capture: Capture) -> Known[str] | None:
    """Return release, version, machine and node name, one per line, as `Uname` specifies."""
    output = output_of(capture, "uname -a")
    found = _UNAME.fullmatch(output.text[:LONGEST_UNAME])
    if found:
        *words, machine = _without_repeats(found["version"].split(" "))
        name = host_name(capture)
        return Known("\n".join((found["release"], " ".join(words), machine, name)), output.origin)
    version = _PROC_VERSION.fullmatch(text_of(capture, "/proc/version")[:LONGEST_UNAME])
    if version is None:
        return None
    lines = (version["release"], version["version"].strip(), "", host_name(capture))
    return Known("\n".join(lines), "/proc/version")


def _without_repeats(words: list[str]) -> list[str]:
    """Drop processor and platform, which `uname -a` of RHEL prints after the same machine name."""
    while len(words) > 1 and words[-1] == words[-2]:
        words = words[:-1]
    return words


def host_name(capture: Capture) -> str:
    """Return the host name, or "" if it is unknown.

    `hostname -f` is tried last: it queries the resolver, which may return "localhost.localdomain".
    """
    texts = (
        printed_name(capture),
        node_name(capture),
        text_of(capture, "/proc/sys/kernel/hostname"),
        output_of(capture, "hostname -f").text,
    )
    names = (text.strip("\n") for text in texts)
    return next((name for name in names if name and "\n" not in name), "")


def printed_name(capture: Capture) -> str:
    """Return the node name of uname(2) as printed by `hostname`, or "" if there is none."""
    name = output_of(capture, "hostname").text.strip("\n")
    return "" if "\n" in name or " " in name else name


def node_name(capture: Capture) -> str:
    """Return the node name as printed by `uname -a`, or "" if there is none."""
    found = _UNAME.fullmatch(output_of(capture, "uname -a").text[:LONGEST_UNAME])
    return found["node"] if found else ""


def memory(capture: Capture) -> Known[str] | None:
    """Return total and available memory in bytes, one per line, or None if unknown."""
    fields = dict(_MEMINFO.findall(text_of(capture, "/proc/meminfo")))
    if {"MemTotal", "MemAvailable"} <= fields.keys():
        sizes = [int(fields[key]) * 1024 for key in ("MemTotal", "MemAvailable")]
        return Known(f"{sizes[0]}\n{sizes[1]}", "/proc/meminfo")
    output = output_of(capture, "free", "free -k")
    found = _FREE.search(output.text) if "available" in output.text else None
    if found is None:
        return None
    return Known(f"{int(found[1]) * 1024}\n{int(found[2]) * 1024}", output.origin)


def setting(capture: Capture, path: str) -> Known[str] | None:
    """Return the value of a path in /proc/sys as printed by `sysctl -a`, or None."""
    name = path.removeprefix("/proc/sys/").replace("/", ".")
    for output in capture.run("sysctl -a"):
        found = re.search(rf"^{re.escape(name)} = (.*)$", output.text, re.MULTILINE)
        if found:
            return Known(f"{found[1]}\n", output.origin)
    return None


def taken_at(capture: Capture, label: str) -> str:
    """Return the time when an archive was made (RFC 3339, UTC).

    Outputs with a time zone come first. The times in sos's manifest and in file names are local
    times without a zone, and are taken as UTC if nothing better is available.
    """
    for line in ("date --utc", "date"):
        found = _CLOCK.search(output_of(capture, line).text)
        if found:
            clock = "{day} {month} {year} {clock}".format(**found.groupdict())
            return _rfc3339(clock, "%d %b %Y %H:%M:%S")
    local = _UNIVERSAL.search(output_of(capture, "timedatectl").text) or _STARTED.search(
        text_of(capture, "/sos_reports/manifest.json")
    )
    return (
        _rfc3339(f"{local[1]} {local[2]}", "%Y-%m-%d %H:%M:%S") if local else _time_in_name(label)
    )


def _rfc3339(text: str, form: str) -> str:
    try:
        parsed = datetime.strptime(text, form).replace(tzinfo=timezone.utc)
    except ValueError:
        return UNDATED
    return parsed.strftime("%Y-%m-%dT%H:%M:%SZ")


def _time_in_name(label: str) -> str:
    """Return the time in an archive name, like sosreport-h-2026-11-21-… or scc_h_261121_0557."""
    long = _IN_NAME.search(label)
    if long:
        return _rfc3339("".join(part or "" for part in long.groups("00")), "%Y%m%d%H%M%S")
    short = _SHORT.search(label)
    return _rfc3339(f"20{''.join(short.groups())}", "%Y%m%d%H%M") if short else UNDATED


CONTAINERS = frozenset(
    {"openvz", "lxc", "lxc-libvirt", "systemd-nspawn", "docker", "podman", "rkt", "wsl", "proot"}
    | {"pouch", "container-other"}
)
"""The container names that `systemd-detect-virt --container` prints (systemd 257)."""
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
"""Values of "Virtualization:" in lscpu that describe the processor's features, not the host."""
_X86 = frozenset({"x86_64", "x86-64", "i686", "i586", "i386"})


def hypervisor(capture: Capture) -> Known[str] | None:
    """Return what `systemd-detect-virt --vm` would print, or None if it is unknown."""
    reported = list(_reported(capture))
    machines = [each for each in reported if each.value not in {*CONTAINERS, "none"}]
    physical = [each for each in reported if each.value == "none"]
    return next(iter([*machines, *physical]), None)


def container(capture: Capture) -> Known[str] | None:
    """Return the kind of container that systemd detected, or None.

    Kernel messages are not considered, because they are shared by the host and all containers.
    """
    reported = _status(capture)
    return reported if reported and reported.value in CONTAINERS else None


def _status(capture: Capture) -> Known[str] | None:
    """Return the virtualization in hostnamectl's output, or None if it is truncated or absent."""
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
    """Return "vm-other" or "none" depending on the processor's flags, or "" if unknown.

    The flag for a hypervisor only exists on x86. An output that ends before or within the flags
    is inconclusive.
    """
    flags = _FLAGS.search(processor.text)
    if flags is None or architecture not in _X86:
        return ""
    return "vm-other" if _HYPERVISOR.search(flags[1]) else "none"


def _name(output: Output, otherwise: str) -> str:
    names = (name.lower() for name in _NAMED.findall(output.text))
    return next((name for name in names if name not in _FEATURES), otherwise)
