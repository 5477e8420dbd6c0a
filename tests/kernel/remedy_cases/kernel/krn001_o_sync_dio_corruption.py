"""KRN001 on real filesystems: not run."""

from __future__ import annotations

NOT_RUN = (
    "Only another kernel cures it: that is advice without commands, because they differ from "
    "distributor to distributor, and a restart is needed."
)
