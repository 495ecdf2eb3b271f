"""A raw disk image: a file that holds a disk byte by byte."""

from __future__ import annotations

from collections.abc import Sequence

from strata.layers._driver import Driver
from strata.layers._image import (
    NOCOW,
    TOOLS,
    ask_image,
    image_bytes,
    image_differences,
    image_figures,
    image_metrics,
    image_path,
    image_reasons,
    make_image,
    plan_image_figures,
    provide_image,
    size_param,
)
from strata.layers._steps import standard_reasons
from strata.model import Call, Command, Completed, Facts, Kind, LayerInfo, Param, ParamType, Place, Provides, Step

INFO = LayerInfo(
    name="raw",
    about="A raw disk image in the directory below.",
    params=(
        size_param("half"),
        Param(
            "prealloc",
            ParamType.CHOICE,
            "what of it is given room when it is made: nothing (a sparse file), all, or all and written with zeros",
            default="off",
            choices=("off", "falloc", "full"),
        ),
        NOCOW,
    ),
    accepts=frozenset({Kind.DIRECTORY}),
    provides=Kind.IMAGE,
    tools=TOOLS,
    metrics=image_metrics("raw"),
)


class RawDriver(Driver):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return standard_reasons(facts, self.info.tools) + image_reasons("raw", spec)

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        return provide_image("raw", spec, below[0], image_path(below[0], place, ".raw"))

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        options = {} if spec["prealloc"] == "off" else {"preallocation": str(spec["prealloc"])}
        file, size = image_path(below[0], place, ".raw"), image_bytes("raw", spec, below[0])
        return make_image("raw", spec, place, file, size, options)

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return ask_image("raw", spec, place, image_path(below[0], place, ".raw"))

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        file, size = image_path(below[0], place, ".raw"), image_bytes("raw", spec, below[0])
        wrong, _ = image_differences("raw", spec, file, size, seen)
        return wrong

    def plan_figures(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return plan_image_figures(place, image_path(below[0], place, ".raw"))

    def figures(
        self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]
    ) -> dict[str, float]:
        return image_figures("raw", seen)


DRIVER = RawDriver()
