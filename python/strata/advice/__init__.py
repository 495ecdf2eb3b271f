"""The choice: requirements against what stacks can do, what was measured of them, and what documents say. Pure."""
