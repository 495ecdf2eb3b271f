"""The only room with SQL and with sample files. One directory per run:

strata.db            plan, journal, trials and figures (SQLite, WAL, synchronous=FULL), append-only
samples/N.parquet    every sample of trial N
samples/N.raw.json.gz    what its figures were made of; may be removed
"""
