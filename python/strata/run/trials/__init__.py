"""One trial: a workload measured, alone or of several tenants together, and what its samples say."""
