"""Made-up campaigns on which strategies are compared: hours of machine time, and how often each is wrong.

    python -m benchmarks.research.simulate --stacks 100 --campaigns 200 --seed 1 --noise realistic --json

Nothing here is measured: `truth` invents stacks, `benchmarks.research.noise` invents how machines misbehave, and every
strategy is run on the same campaigns. `benchmarks.research.replay` does the same with a stored data set in their place.

    truth     stacks of a factorial campaign, and a machine that pretends to measure them
    peers     what others do: fixed matrices, the rule of the Phoronix Test Suite, successive halving
    ours      the race and the adaptive rule, by the code that runs real campaigns
    tally     the result of it, over many campaigns
"""
