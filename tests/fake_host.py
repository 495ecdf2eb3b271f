"""A host that runs nothing, for tests of what plans and runs without a machine.

Every command succeeds and is remembered. `respond` may answer a command itself: it gets the command and returns the
text of its standard output, or None for the default, an empty one. Files live in memory. A command that calls the
engine's `sample` writes the engine's file with the wall time that `wall_s` gives for that file's path.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from strata.model import Command, Completed, Facts


class FakeHost:
    engine = "strata-engine"

    def __init__(
        self,
        wall_s: Callable[[str], float] = lambda path: 1.0,
        respond: Callable[[Command], str | None] = lambda command: None,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.commands: list[Command] = []
        self.files: dict[str, str] = {}
        self._wall_s = wall_s
        self._respond = respond
        self._clock = clock

    def run(self, command: Command, *, check: bool = True) -> Completed:
        self.commands.append(command)
        argv = command.argv
        if argv[:2] == (self.engine, "sample"):
            path = argv[argv.index("--out") + 1]
            end = {"end": True, "wall_s": self._wall_s(path), "exit_code": 0, "signal": None}
            header = {"version": 1, "interval_s": 0.1, "started_unix_s": self._clock(), "cpus": 1, "devices": {}}
            self.files[path] = f"{json.dumps(header)}\n{json.dumps(end)}\n"
        return Completed(argv, 0, self._respond(command) or "", "", 0.0)

    def write(self, path: str, content: str) -> None:
        self.files[path] = content

    def read(self, path: str) -> str | None:
        return self.files.get(path)

    def now(self) -> float:
        return self._clock()

    def facts(self, tools: Iterable[str], work_dir: str) -> Facts:
        return Facts(
            hostname="fake",
            kernel=(6, 12, 0),
            kernel_text="6.12.0-fake",
            os="Fake",
            cpu_model="",
            cpus=1,
            memory_bytes=1 << 30,
            root=True,
            filesystems=frozenset({"ext4", "xfs", "btrfs"}),
            tools=dict.fromkeys(tools, "0"),
            schedulers=frozenset({"none"}),
            free_bytes=1 << 50,
        )

    def end_strays(self, marker: str) -> list[str]:
        return []
