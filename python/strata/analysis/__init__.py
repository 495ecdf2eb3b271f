"""Pure: from a frozen `model.View` to figures, comparisons, a ranking and warnings.

    steady     where the warm-up of one trial ends, and whether the rest is steady
    estimate   one figure with an interval for every stack, workload and metric
    compare    ratios between stacks, paired within rounds
    rank       who is best, who ties with the best, or that the data cannot decide
    checks     what a careful reader should know before believing it
    noise      how storage benchmarks misbehave, for tests and the fake host

Nothing is imported here: each command pays only for what it uses.
"""
