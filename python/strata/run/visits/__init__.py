"""One visit: a stack built, proven, measured and taken down, on the machine and in its guests."""
