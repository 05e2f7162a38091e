# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
