from __future__ import annotations

import pytest

from ext4audit.facts.host import Kernel
from ext4audit.facts.versions import KernelTree, identify
from ext4audit.parsers import parse_kernel

DEBIAN_12 = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.64-1 (2023-11-30)"


def kernel(release: str, version: str = "", signature: str | None = None) -> Kernel:
    """Parse a kernel as a scan does."""
    read = parse_kernel(f"{release}\n{version}\nx86_64\nhost")
    return Kernel(read.release, read.version, read.upstream, signature)


@pytest.mark.parametrize(
    ("found", "tree"),
    [
        (kernel("6.1.64"), KernelTree("upstream", "6.1.64", (6, 1, 64), exact=True)),
        (kernel("6.5"), KernelTree("upstream", "6.5", (6, 5, 0), exact=True)),
        (kernel("6.7.0-rc3+"), KernelTree("upstream", "6.7.0-rc3+", (6, 7, 0), exact=True)),
        (
            kernel("6.1.0-14-amd64", DEBIAN_12),
            KernelTree("debian", "6.1.64-1", (6, 1, 64), exact=True),
        ),
        (
            kernel("6.1.0-0.deb11.13-amd64", "#1 SMP Debian 6.1.55-1~bpo11+1 (2023-10-08)"),
            KernelTree("debian", "6.1.55-1~bpo11+1", (6, 1, 55), exact=True),
        ),
        (
            kernel("6.12.43+deb13-amd64", "#1 SMP Debian 6.12.43-1 (2025-08-27)"),
            KernelTree("debian", "6.12.43-1", (6, 12, 43), exact=True),
        ),
        (
            kernel("5.10.0-29-cloud-amd64", "#1 SMP Debian 5.10.216-1+deb11u2 (2024)"),
            KernelTree("debian", "5.10.216-1+deb11u2", (5, 10, 216), exact=True),
        ),
        (
            kernel("6.1.0-kali9-amd64", "#1 SMP Debian 6.1.27-1kali1 (2023-05-12)"),
            KernelTree("other", "6.1.27-1kali1", (6, 1, 27), exact=True),
        ),
        (
            kernel("6.1.0-rpi7-rpi-v8", "#1 SMP Debian 1:6.1.63-1+rpt1 (2023-11-24)"),
            KernelTree("other", "1:6.1.63-1+rpt1", (6, 1, 63), exact=True),
        ),
        (
            kernel("6.1.0-18-amd64", "#1 SMP"),
            KernelTree("other", "6.1.0-18-amd64", (6, 1, 0), exact=False),
        ),
        (
            kernel("5.10.0-8-amd64", DEBIAN_12),
            KernelTree("other", "5.10.0-8-amd64", (5, 10, 0), exact=False),
        ),
        (
            kernel("5.15.0-91-generic", "#101-Ubuntu", "Ubuntu 5.15.0-91.101-generic 5.15.131"),
            KernelTree("ubuntu", "5.15.0-91.101", (5, 15, 131), exact=True),
        ),
        (
            kernel("6.5.0-14-generic", "", "Ubuntu 6.5.0-14.14~22.04.1-generic 6.5.3\n"),
            KernelTree("ubuntu", "6.5.0-14.14~22.04.1", (6, 5, 3), exact=True),
        ),
        (
            kernel("5.15.0-91-generic", "#101-Ubuntu SMP Tue Nov 14 13:30:08 UTC 2023"),
            KernelTree("ubuntu", "5.15.0-91-generic", (5, 15, 0), exact=False),
        ),
        (
            kernel("5.14.0-427.13.1.el9_4.x86_64"),
            KernelTree("rhel", "5.14.0-427.13.1.el9_4", (5, 14, 0), exact=False),
        ),
        (
            kernel("2.6.32-754.el6.x86_64"),
            KernelTree("rhel", "2.6.32-754.el6", (2, 6, 32), exact=True),
        ),
        (
            kernel("5.15.0-100.96.32.el8uek.x86_64"),
            KernelTree("other", "5.15.0-100.96.32.el8uek.x86_64", (5, 15, 0), exact=False),
        ),
        (
            kernel("4.14.35-2047.500.10.el7uek.x86_64"),
            KernelTree("other", "4.14.35-2047.500.10.el7uek.x86_64", (4, 14, 35), exact=True),
        ),
        (
            kernel("4.4.218-1.el7.elrepo.x86_64"),
            KernelTree("other", "4.4.218-1.el7.elrepo.x86_64", (4, 4, 218), exact=True),
        ),
        (
            kernel("6.9.0-1.el9.elrepo.x86_64"),
            KernelTree("other", "6.9.0-1.el9.elrepo.x86_64", (6, 9, 0), exact=False),
        ),
        (
            kernel("4.14.0-115.el7a.aarch64"),
            KernelTree("other", "4.14.0-115.el7a.aarch64", (4, 14, 0), exact=False),
        ),
        (kernel("6.1.64+"), KernelTree("other", "6.1.64+", (6, 1, 64), exact=True)),
        (
            kernel("5.10.227-219.884.amzn2.x86_64"),
            KernelTree("amazon", "5.10.227-219.884.amzn2", (5, 10, 227), exact=True),
        ),
        (
            kernel("4.19.91-26.6.al7.x86_64"),
            KernelTree("alinux2", "4.19.91-26.6.al7", (4, 19, 91), exact=True),
        ),
        (
            kernel("4.19.91-c8dfc93.al7.x86_64"),
            KernelTree("alinux2-commit", "4.19.91-c8dfc93.al7", (4, 19, 91), exact=True),
        ),
        (
            kernel("5.10.134-15.1.al8.x86_64"),
            KernelTree("other", "5.10.134-15.1.al8.x86_64", (5, 10, 134), exact=True),
        ),
        (
            kernel("6.6.9-arch1-1"),
            KernelTree("other", "6.6.9-arch1-1", (6, 6, 9), exact=True),
        ),
    ],
    ids=lambda value: value.release if isinstance(value, Kernel) else "",
)
def test_vendor_and_base_of_a_kernel(found: Kernel, tree: KernelTree) -> None:
    """Release, version string and signature are used, but never os-release."""
    assert identify(found) == tree


@pytest.mark.parametrize(
    "signature", ["", "Ubuntu", "Ubuntu 5.15.0-91.101-generic", "\x1b Ubuntu 1-1-x 1.2.3"]
)
def test_an_odd_signature_is_no_signature(signature: str) -> None:
    """A kernel of Ubuntu without a readable signature is judged by its release."""
    tree = identify(kernel("5.15.0-91-generic", "#101-Ubuntu SMP", signature))
    assert (tree.name, tree.exact) == ("ubuntu", False)


def test_the_ends_of_an_inexact_kernel_are_those_of_its_series() -> None:
    """If a vendor does not publish the stable update, it may be any."""
    lowest, highest = identify(kernel("5.14.0-427.el9.x86_64")).ends()
    assert (lowest.upstream, highest.upstream) == ((5, 14, 0), (5, 14, 999))
    exact = identify(kernel("6.1.64"))
    assert exact.ends() == (exact, exact)
