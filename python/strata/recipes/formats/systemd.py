"""Units of systemd."""

from __future__ import annotations

from strata.recipes.formats._units import units
from strata.recipes.written import Format

FORMAT = Format("systemd", "a mount unit, and a service that starts what lies below it at every boot", units)
