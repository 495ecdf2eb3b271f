"""Quantiles and tail areas of Student's t and of F. Only `scipy.special`: `scipy.stats` takes twice as long to load."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4096)
def t_quantile(probability: float, df: float) -> float:
    """The value that a t variable with `df` (> 0) degrees of freedom stays below with `probability` (0..1)."""
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))


def t_two_sided(t: float, df: float) -> float:
    """P(|T| >= |t|)."""
    from scipy.special import stdtr

    return 2.0 * float(stdtr(df, -abs(t)))


def f_tail(f: float, df_above: float, df_below: float) -> float:
    """P(F >= f)."""
    from scipy.special import fdtrc

    return float(fdtrc(df_above, df_below, f))
