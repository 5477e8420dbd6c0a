"""Write the healthy hosts: what five distributions install, and what their clouds boot.

`python tests/healthy_hosts.py` writes fixtures/hosts/healthy-<name>/snapshot again. The ext4 on
them are real ones of the sizes that they state; all around is as such systems have it.
"""

from __future__ import annotations

import healthy_clouds
import healthy_servers
from fixture_hosts import write

HEALTHY = {
    "debian-12": healthy_servers.debian,
    "ubuntu-22.04": healthy_servers.jammy,
    "ubuntu-24.04": healthy_servers.noble,
    "rhel-8": healthy_servers.el8,
    "rhel-9": healthy_servers.el9,
    "debian-12-cloud": healthy_clouds.debian,
    "ubuntu-22.04-cloud": healthy_clouds.jammy,
    "ubuntu-24.04-cloud": healthy_clouds.noble,
    "rhel-8-cloud": healthy_clouds.el8,
    "rhel-9-cloud": healthy_clouds.el9,
}

if __name__ == "__main__":
    for name, host in HEALTHY.items():
        write(f"healthy-{name}", host())
