from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.evidence import Known, Unknown, need
from ext4audit.facts.features_and_bugs import LEVELS, WORST_OF, all_ranges, exposure
from ext4audit.facts.host import Kernel
from ext4audit.facts.versions import DEBIAN, TREES, UPSTREAM, Exposure, KernelRange, identify
from ext4audit.parsers import parse_kernel
from support.builders import known, unknown

RANGES = [(code, each) for code, ranges in all_ranges().items() for each in ranges]
WHO_MAY_CONFIRM = {UPSTREAM, DEBIAN, "alinux2"}
"""Trees whose vendors publish their own ranges."""


def kernel(release: str, version: str = "", signature: str | None = None) -> Kernel:
    """Parse a kernel as a scan does."""
    read = parse_kernel(f"{release}\n{version}\nx86_64\nhost")
    return Kernel(read.release, read.version, read.upstream, signature)


def debian(package: str) -> Kernel:
    """Return a kernel of Debian by its package version."""
    major, minor, _ = package.split(".", 2)
    return kernel(f"{major}.{minor}.0-1-amd64", f"#1 SMP Debian {package} (2024-01-01)")


def known_exposure(code: str, of: Kernel) -> Exposure:
    """Return the known exposure of a kernel."""
    return need(exposure(code, known(of, "uname")))


def grade(code: str, of: Kernel) -> str:
    """Return the confidence of a kernel's exposure, or why there is none."""
    found = exposure(code, known(of, "uname"))
    if isinstance(found, Unknown):
        return "unknown"
    return found.value.confidence if found.value.affected else "no"


@pytest.mark.parametrize(
    ("release", "confidence"),
    [
        ("6.1.63", "no"),
        ("6.1.64", "confirmed"),
        ("6.1.65", "confirmed"),
        ("6.1.66", "no"),
        ("5.10.226", "no"),
        ("5.10.227", "confirmed"),
        ("5.10.228", "confirmed"),
        ("5.10.229", "no"),
        ("5.15.140", "no"),
        ("6.5.0", "no"),
        ("5.10.227-219.884.amzn2.x86_64", "possible"),
        ("6.1.64-fc-v1", "possible"),
        ("6.1.66-91.160.amzn2023.x86_64", "no"),
        ("6.1.64+", "possible"),
        ("6.1.64-1.el9.elrepo.x86_64", "possible"),
        ("6.1.0-18-amd64", "unknown"),
        ("5.14.0-427.el9.x86_64", "no"),
        ("4.19.91-c8dfc93.al7.x86_64", "no"),
    ],
)
def test_o_sync_direct_writes_by_release(release: str, confidence: str) -> None:
    """KRN001: two windows of stable updates; a vendor's release without its update is unknown."""
    assert grade("KRN001", kernel(release)) == confidence


@pytest.mark.parametrize(
    ("package", "confidence"),
    [
        ("6.1.55-1", "no"),
        ("6.1.64-1", "confirmed"),
        ("6.1.64-1~bpo11+1", "confirmed"),
        ("6.1.66-1~bpo11+1", "no"),
        ("6.1.66-1", "no"),
        ("6.1.76-1", "no"),
        ("5.10.226-1", "no"),
        ("5.10.227-1", "likely"),
        ("5.10.234-1", "no"),
    ],
)
def test_o_sync_direct_writes_by_package_of_debian(package: str, confidence: str) -> None:
    """KRN001: Debian's statements on its packages are confirmed, upstream's ranges are likely."""
    assert grade("KRN001", debian(package)) == confidence


@pytest.mark.parametrize(
    ("release", "confidence"),
    [
        ("6.0.19", "no"),
        ("6.1.192", "possible"),
        ("6.4.16", "possible"),
        ("6.5.0", "likely"),
        ("6.6.9", "likely"),
        ("6.6.31", "likely"),
        ("6.6.103", "likely"),
        ("6.6.104", "possible"),
        ("6.7.12", "likely"),
        ("6.8.0", "no"),
        ("6.8.0-31-generic", "no"),
        ("6.5.0-14-generic", "possible"),
        ("6.6.0-14-generic", "possible"),
        ("6.5.11-7-pve", "possible"),
        ("5.14.0-427.el9.x86_64", "no"),
        ("6.18.44-fc-v769", "no"),
    ],
)
def test_stripe_scans_by_release(release: str, confidence: str) -> None:
    """KRN002: 6.5 to 6.7 is likely, but possible if a vendor may have fixed it."""
    assert grade("KRN002", kernel(release)) == confidence


@pytest.mark.parametrize(
    ("release", "confidence"),
    [
        ("3.6.11", "no"),
        ("3.10.0-1160.el7.x86_64", "possible"),
        ("4.19.311", "confirmed"),
        ("4.19.312", "no"),
        ("5.4.273", "confirmed"),
        ("5.4.274", "no"),
        ("5.10.214", "confirmed"),
        ("5.10.215", "no"),
        ("5.15.153", "confirmed"),
        ("5.15.154", "no"),
        ("5.15.0-91-generic", "unknown"),
        ("6.1.83", "confirmed"),
        ("6.1.84", "no"),
        ("6.1.0-18-amd64", "unknown"),
        ("6.5.13", "confirmed"),
        ("6.6.23", "confirmed"),
        ("6.6.24", "no"),
        ("6.7.11", "confirmed"),
        ("6.7.12", "no"),
        ("6.8.2", "confirmed"),
        ("6.8.3", "no"),
        ("6.9.0", "no"),
        ("5.14.0-427.el9.x86_64", "possible"),
    ],
)
def test_growth_in_use_by_release(release: str, confidence: str) -> None:
    """CAP005: each stable series has its own first kernel without the corruption."""
    assert grade("CAP005", kernel(release)) == confidence


@pytest.mark.parametrize(
    ("release", "confidence", "severity"),
    [
        ("5.9.16", "no", "info"),
        ("5.10.0", "confirmed", "high"),
        ("5.10.93", "confirmed", "high"),
        ("5.10.94", "likely", "medium"),
        ("5.10.262", "likely", "medium"),
        ("5.14.21", "confirmed", "high"),
        ("5.15.26", "confirmed", "high"),
        ("5.15.27", "likely", "low"),
        ("5.15.86", "likely", "low"),
        ("5.15.87", "no", "info"),
        ("5.16.12", "confirmed", "high"),
        ("5.16.13", "likely", "low"),
        ("5.17.0", "likely", "low"),
        ("6.0.19", "possible", "low"),
        ("6.1.3", "possible", "low"),
        ("6.1.4", "no", "info"),
        ("6.2.0", "no", "info"),
        ("5.14.0-427.el9.x86_64", "possible", "low"),
        ("5.14.21-150500.55.52-default", "possible", "low"),
        ("5.10.0-1057-oem", "possible", "low"),
    ],
)
def test_fast_commits_by_release(release: str, confidence: str, severity: str) -> None:
    """KRN003: the stable updates with the fixes end the ranges."""
    found = known_exposure("KRN003", kernel(release))
    assert (grade("KRN003", kernel(release)), found.severity) == (confidence, severity)


@pytest.mark.parametrize(
    ("signature", "confidence"),
    [
        (None, "unknown"),
        ("Ubuntu 5.15.0-18.18-generic 5.15.12", "possible"),
        ("Ubuntu 5.15.0-91.101-generic 5.15.131", "no"),
    ],
)
def test_signature_of_ubuntu_has_the_stable_update(signature: str | None, confidence: str) -> None:
    """Without it, 5.15.0-91 may be any 5.15 kernel; with it, the exposure is at best possible."""
    of = kernel("5.15.0-91-generic", "#101-Ubuntu SMP", signature)
    assert grade("KRN003", of) == confidence


def test_unknown_update_has_a_hint() -> None:
    """The hint names the two files."""
    found = exposure("KRN001", known(kernel("6.1.0-18-amd64"), "uname"))
    assert isinstance(found, Unknown)
    assert found.detail == "6.1.0-18-amd64 does not show it"
    assert "/proc/version_signature" in found.hint


@pytest.mark.parametrize(
    "release",
    ["5.15.0-100.96.32.el8uek.x86_64", "5.15.0-1.el9.x86_64", "5.10.0-60.18.0.50.oe2203.x86_64"],
)
def test_an_unknown_update_of_an_rpm_is_in_its_changelog(release: str) -> None:
    """Their `uname -v` does not show it, and they have no /proc/version_signature."""
    found = exposure("KRN003" if release.startswith("5.15") else "KRN001", known(kernel(release)))
    assert isinstance(found, Unknown)
    assert "rpm -q --changelog" in found.hint


@pytest.mark.parametrize(
    ("release", "confidence"),
    [
        ("3.10.0-1160.el7.x86_64", "likely"),
        ("4.18.0-240.22.1.el8_3.x86_64", "likely"),
        ("4.14.35-2047.500.10.el7uek.x86_64", "possible"),
        ("4.4.218-1.el7.elrepo.x86_64", "possible"),
        ("4.14.0-115.el7a.aarch64", "possible"),
        ("4.19.112+", "possible"),
    ],
)
def test_what_was_read_of_red_hat_is_not_said_of_others(release: str, confidence: str) -> None:
    """PRF001: Oracle's UEK and ELRepo also build for el7, but from other sources."""
    assert grade("PRF001", kernel(release)) == confidence


def test_an_unknown_kernel_stays_that_gap() -> None:
    """The gap is returned unchanged."""
    assert exposure("KRN001", unknown("the kernel")) == unknown("the kernel")


def test_a_vendor_is_said_to_be_able_to_have_corrected_it() -> None:
    """A finding that is only possible states why."""
    assert "vendor" in known_exposure("KRN002", kernel("6.5.11-7-pve")).note
    assert "vendor" not in known_exposure("KRN002", kernel("6.5.11")).note
    assert "vendor" not in known_exposure("KRN002", debian("6.5.10-1~bpo12+1")).note


KERNELS = st.builds(
    lambda numbers, suffix, version, signature: Kernel(
        f"{numbers[0]}.{numbers[1]}.{numbers[2]}{suffix}", version, numbers, signature
    ),
    st.tuples(st.integers(3, 7), st.integers(0, 20), st.integers(0, 300)),
    st.sampled_from(
        [
            "-427.el9.x86_64",
            "-240.22.1.el8_3.x86_64",
            "-219.884.amzn2.x86_64",
            "-91-generic",
            "-default",
            "-arch1-1",
            "-c8dfc93.al7.x86_64",
            "-26.6.an7.x86_64",
            "-300.fc39.x86_64",
            "-7-pve",
            "-kali9-amd64",
        ]
    ),
    st.sampled_from(["", "#1 SMP", "#101-Ubuntu SMP", "#1 SMP Debian 6.1.64-1kali1"]),
    st.sampled_from([None, "Ubuntu 6.1.0-14.14-generic 6.1.64", "?"]),
)


@given(of=KERNELS, code=st.sampled_from(sorted(all_ranges())))
def test_nothing_is_confirmed_where_backports_cannot_be_known(of: Kernel, code: str) -> None:
    """Red Hat, Amazon, Ubuntu and unknown vendors: at most likely, if their sources were read."""
    found = exposure(code, Known(of, "uname"))
    assert identify(of).name not in WHO_MAY_CONFIRM
    if isinstance(found, Known) and found.value.affected:
        assert found.value.confidence != "confirmed"
        assert code == "PRF001" or found.value.confidence == "possible"


@pytest.mark.parametrize(("code", "each"), RANGES, ids=[f"{c} {r.tree}" for c, r in RANGES])
def test_a_range_is_complete(code: str, each: KernelRange) -> None:
    """It has a vendor, an effect, a reference, and a grade that fits the confidence."""
    exposed = each.exposure
    assert each.tree in TREES | {"any"}
    assert not (each.since and each.after)
    assert not (each.before and each.until)
    assert exposed.note
    assert not exposed.note.endswith(".")
    if not exposed.affected:
        return
    assert exposed.source.startswith("https://"), code
    assert all((exposed.symptom, exposed.condition, exposed.fix))
    assert not exposed.symptom.endswith(".")
    worst = WORST_OF[exposed.confidence]
    assert LEVELS.index(exposed.severity) >= LEVELS.index(worst)
    assert exposed.confidence != "confirmed" or each.tree in WHO_MAY_CONFIRM


BOUNDED = {
    "since": [False, True, True, True, True],
    "after": [False, False, True, True, True],
    "before": [True, False, False, False, False],
    "until": [True, True, False, False, False],
}


@pytest.mark.parametrize(("bound", "holds"), BOUNDED.items())
@pytest.mark.parametrize(
    ("tree", "value", "kernels"),
    [
        ("upstream", "6.1.2", [kernel(f"6.1.{n}") for n in (1, 2, 3, 4, 10)]),
        ("debian", "6.1.64-1", [debian(f"6.1.64-1{s}") for s in ("~bpo11+1", "", "+deb12u1")]),
        ("rhel", "4.18.0-240.el8", [kernel(f"4.18.0-{n}.el8.x86_64") for n in (147, 240, 305)]),
    ],
)
def test_bounds_are_inclusive_or_exclusive_as_their_names_say(
    bound: str, holds: list[bool], tree: str, value: str, kernels: list[Kernel]
) -> None:
    """`since` and `until` are inclusive, `after` and `before` exclusive."""
    fields: dict[str, Any] = {bound: value}
    each = KernelRange(tree, Exposure(affected=True, note="test"), **fields)
    found = [each.holds(identify(of)) for of in kernels]
    assert found == holds[: len(kernels)]
