# Copyright the ext4audit authors
# MIT License (see LICENSE)
"""Documentation of the action `snapshot`, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: snapshot
short_description: Collect evidence about ext4 filesystems, and audit it on the controller
version_added: "0.1.0"
description:
  - Runs the collector of C(ext4audit) in the shell of a host, and audits what it prints with
    the C(ext4audit) of the controller.
  - The host needs no Python. Nothing is written there but a private temporary directory, which
    the collector removes.
  - Root sees most; use C(become).
author:
  - The ext4audit authors (@ext4audit)
options:
  audit:
    description: Whether the evidence is audited. Without, O(dest) keeps it for later.
    type: bool
    default: true
  dest:
    description: A file on the controller that keeps the snapshot, for C(ext4audit scan --from).
    type: path
  inventory_dest:
    description: A file on the controller for the hosts of the play and their groups, in JSON.
      The first host writes it.
    type: path
  options:
    description: Options of C(ext4audit scan) for the audit, such as V(--select) and V(DUR).
    type: list
    elements: str
    default: []
  program:
    description: The program on the controller.
    type: str
    default: ext4audit
  script:
    description: A file on the controller with the collector, as C(ext4audit collect --script)
      prints it. By default O(program) is asked for it.
    type: path
attributes:
  action:
    description: Runs on the controller, and executes the collector on the host.
    support: full
  check_mode:
    description: Does the same in check mode, because it changes nothing.
    support: full
  diff_mode:
    description: There are no changes to show.
    support: none
"""

EXAMPLES = r"""
- name: Collect and audit
  ext4audit.audit.snapshot:
  become: true

- name: Fail on lost write barriers
  ansible.builtin.assert:
    that: ext4audit.findings | selectattr('rule', 'equalto', 'DUR001') | length == 0

- name: Keep the snapshot, audit later
  ext4audit.audit.snapshot:
    dest: "snapshots/{{ inventory_hostname }}.txt"
    audit: false
  become: true
"""

RETURN = r"""
ansible_facts:
  description: Facts of the host.
  returned: when O(audit) is true
  type: dict
  contains:
    ext4audit:
      description: The result of the audit.
      type: dict
      contains:
        host:
          description: The name of the host in the inventory.
          type: str
          sample: db1
        complete:
          description: Whether no evidence is missing.
          type: bool
        counts:
          description: The number of findings by severity, from V(critical) to V(info).
          type: dict
          sample: {"critical": 0, "high": 1, "medium": 0, "low": 0, "info": 2}
        findings:
          description: The findings that are not suppressed.
          type: list
          elements: dict
          contains:
            rule:
              description: The code of the rule.
              type: str
              sample: DUR001
            name:
              description: The name of the rule.
              type: str
              sample: barrier-disabled
            filesystem:
              description: The identity of the filesystem; null for a finding about the host.
              type: str
            severity:
              description: From V(critical) to V(info).
              type: str
              sample: critical
            message:
              description: What is the case, and what follows.
              type: str
dest:
  description: The file that keeps the snapshot.
  returned: when O(dest) is given
  type: str
"""
