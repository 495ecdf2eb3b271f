"""Studies of the decision rule, for developers: on simulated campaigns, and on visits of real ones.

Nothing here is installed. Run it from the repository's folder:

    python -m benchmarks.research.simulate --stacks 100 --campaigns 200 --seed 1 --noise realistic
    python -m benchmarks.research.dataset RUN visits.parquet
    python -m benchmarks.research.replay visits.parquet --campaigns 100
"""
