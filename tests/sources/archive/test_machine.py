from __future__ import annotations

import pytest

from ext4audit.evidence import Known
from ext4audit.sources.archive.system import container, hypervisor
from support.archives.contents import capture

STATUS = "sos_commands/host/hostnamectl_status"
LSCPU = "sos_commands/processor/lscpu"
DMESG = "sos_commands/kernel/dmesg"
TIMED_OUT = "Failed to query system properties: Connection timed out\n"
BARE = "   Static hostname: db\n      Architecture: x86-64\n"
X86 = "Architecture:        x86_64\nVirtualization:      VT-x\nFlags: fpu vme{}\n"


@pytest.mark.parametrize(
    ("files", "kind", "origin"),
    [
        ({STATUS: f"{BARE}    Virtualization: kvm\n"}, "kvm", STATUS),
        ({STATUS: BARE}, "none", STATUS),
        (
            {STATUS: TIMED_OUT, LSCPU: X86.format("") + "Hypervisor vendor:   Microsoft\n"},
            "microsoft",
            LSCPU,
        ),
        (
            {STATUS: TIMED_OUT, DMESG: "[    0.000000] Hypervisor detected: Microsoft Hyper-V\n"},
            "microsoft",
            DMESG,
        ),
        (
            {DMESG: "[    1.5] systemd[1]: Detected virtualization vmware.\n"},
            "vmware",
            DMESG,
        ),
        ({STATUS: BARE, LSCPU: X86.format(" hypervisor")}, "vm-other", LSCPU),
        ({LSCPU: X86.format("")}, "none", LSCPU),
        ({STATUS: f"{BARE}    Virtualization: lxc\n", LSCPU: X86.format("")}, "none", LSCPU),
    ],
)
def test_hypervisor_is_found_in_any_text(files: dict[str, str], kind: str, origin: str) -> None:
    """The processor's features do not show a hypervisor, and neither does a container."""
    assert hypervisor(capture(files)) == Known(kind, origin)


@pytest.mark.parametrize(
    "files",
    [
        {},
        {STATUS: TIMED_OUT},
        {STATUS: f"{BARE}    Virtualization: lxc\n"},
        {LSCPU: "Architecture: aarch64\nFlags: fp asimd\n"},
        {LSCPU: "Architecture:        x86_64\nCPU op-mode(s):      32-bit, 64-bit\n"},
        {LSCPU: "Architecture:        x86_64\nFlags: fpu vme hyperv"},
        {DMESG: "[    0.0] Booting Linux on physical CPU 0x0\n"},
    ],
)
def test_unknown_hypervisor(files: dict[str, str]) -> None:
    """This does not make it a physical machine; a truncated text may have had the flag."""
    assert hypervisor(capture(files)) is None


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({STATUS: f"{BARE}           Chassis: container\n    Virtualization: lxc\n"}, "lxc"),
        ({DMESG: "[    1.5] systemd[1]: Detected virtualization podman.\n"}, None),
        ({STATUS: f"{BARE}    Virtualization: kvm\n"}, None),
        ({STATUS: BARE}, None),
        ({}, None),
    ],
)
def test_a_container_is_what_systemd_detected(files: dict[str, str], kind: str | None) -> None:
    """The names are those of systemd-detect-virt --container."""
    found = container(capture(files))
    assert (found.value if found else None) == kind
