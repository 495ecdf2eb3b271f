"""The impure middle: carries a plan out, journals every step before it starts, and cleans up on every path."""
