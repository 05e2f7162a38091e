# Copyright (c) 2026, the llmhost.sglang authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every module of this collection says about check mode, diff mode, platform, idempotence and its group."""

from __future__ import annotations


class ModuleDocFragment:
    # The words alone. Whoever changes something writes its own "support" (and "details" where it is partial).
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in C(check_mode)) in diff mode.
  platform:
    description: Target OS/families that can be operated against.
  idempotent:
    description:
      - When run twice in a row outside check mode, with the same arguments, the second invocation indicates no change.
      - This assumes that the system controlled or queried by the module has not changed in a relevant way.
"""

    # A module that looks and never changes.
    INFO_MODULE = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - This action does not modify state.
  diff_mode:
    support: N/A
    details:
      - This action does not modify state.
  platform:
    support: full
    platforms: posix
  idempotent:
    support: full
    details:
      - This action does not modify state.
"""

    # The group for C(module_defaults).
    ACTIONGROUP_SGLANG = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/llmhost.sglang.sglang) in C(module_defaults) to set defaults for this module.
    support: full
    membership:
      - llmhost.sglang.sglang
"""
