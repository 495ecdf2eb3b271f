"""A shell script that needs nothing of Strata."""

from __future__ import annotations

from strata.recipes import shell
from strata.recipes.plan import Recipe
from strata.recipes.written import File, Format


def write(recipe: Recipe) -> tuple[File, ...]:
    return (File(f"{recipe.name}.sh", shell.render(recipe)),)


FORMAT = Format(
    "shell", "one shell script that builds, checks and removes the stack, and needs nothing of Strata", write
)
