"""What a run says, as data and as pages. Pure: from a view and its ranking to text.

    build(view, ranking, warnings) -> ReportModel      holds every number and sentence shown
    verdict_json(model) -> dict                        what a script asks
    html.render(model), markdown.render(model), jsonform.render(model), terminal.render(model) -> str

The renderers lay the model out and add nothing. They are not imported here: each command pays only for what it uses.
"""

from strata.report.assemble import build
from strata.report.jsonform import verdict_json

__all__ = ["build", "verdict_json"]
