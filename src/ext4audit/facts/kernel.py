"""The kernel that runs, as `uname` names it."""

from __future__ import annotations

from ext4audit.records import dataclass


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel release: "4.19.91-24.8.al7.x86_64" has upstream (4, 19, 91).

    `version` is `uname -v`: Debian writes its package version there, not in the release.
    `signature` is Ubuntu's /proc/version_signature, None on other kernels.
    """

    release: str
    version: str
    upstream: tuple[int, int, int]
    signature: str | None = None

    def since(self, *numbers: int) -> bool:
        """Whether the upstream number is at or after `numbers`, whatever was backported."""
        return self.upstream >= numbers
