"""Fixtures for tests of the packages that .ci/release has built."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.packages.built import DIST, unavailable
from support.packages.chroot import chroot
from support.packages.containerfile import Image, build


@pytest.fixture(scope="session")
def dist() -> Path:
    """Return the folder with the packages."""
    if not (DIST / "SHA256SUMS").exists():
        unavailable("EXT4AUDIT_DIST: the folder that .ci/release wrote")
    return DIST


def only_package(dist: Path, pattern: str) -> Path:
    """Return the one package whose name matches the pattern."""
    (path,) = dist.glob(pattern)
    return path


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    """Return the wheel."""
    return only_package(dist, "*.whl")


@pytest.fixture(scope="session")
def sdist(dist: Path) -> Path:
    """Return the source distribution."""
    return only_package(dist, "*.tar.gz")


@pytest.fixture(scope="session")
def one_file(dist: Path) -> Path:
    """Return the program in one file."""
    return only_package(dist, "*.pyz")


@pytest.fixture(scope="session")
def deb(dist: Path) -> Path:
    """Return the Debian package."""
    return only_package(dist, "*.deb")


@pytest.fixture(scope="session")
def rpm(dist: Path) -> Path:
    """Return the rpm."""
    return only_package(dist, "*.rpm")


@pytest.fixture(scope="session")
def image(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Return the layer that the Containerfile adds to its base: Python and the one file."""
    folder = tmp_path_factory.mktemp("image")
    with chroot(folder) as system:
        return build(system, dist, folder / "upper")
