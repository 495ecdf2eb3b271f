"""Where the packages come from: the Debian mirror that this machine's own apt uses, read with a private apt.

Private means: its own lists, cache and state, so that nothing of this machine changes and no right of root is needed.
What the machine's apt is configured to do otherwise (a proxy, its certificates) holds here too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from strata.errors import BadInput, Refused
from strata.hosts.base import Host
from strata.lab.spec import SUITES
from strata.model import Command

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_COMPONENTS = "main contrib"
_NETWORK_S = 900.0

# One line per index that apt knows. The origin is known once apt has fetched it.
_INDEXES = Command(
    ("apt-get", "indextargets", "--format", "$(REPO_URI)|$(CODENAME)|$(ORIGIN)|$(LABEL)", "Created-By: Packages")
)
_CONFIGURATION = Command(("apt-config", "dump", "--format", '%F "%v";%n', "Acquire::http", "Acquire::https"))


@dataclass(frozen=True, slots=True)
class Mirror:
    uri: str
    options: tuple[str, ...] = ()  # lines of apt.conf about how this machine reaches it

    def line(self, suite: str) -> str:
        """As in sources.list."""
        return f"deb [signed-by={KEYRING}] {self.uri} {suite} {_COMPONENTS}"


def mirror(host: Host) -> Mirror:
    """Raises Refused when this machine's apt names none."""
    uri = mirror_in(host.run(_INDEXES).stdout)
    if uri is None:
        raise Refused(
            "the lab is made from Debian's packages and this machine's apt names no Debian mirror that is reached by "
            "http; add one (a file in /etc/apt/sources.list.d) and type `apt-get update` as root."
        )
    return Mirror(uri, options_in(host.run(_CONFIGURATION).stdout))


def mirror_in(indexes: str) -> str | None:
    """The first mirror of Debian proper in what `apt-get indextargets` says; not of its security updates."""
    for line in indexes.splitlines():
        uri, codename, origin, label = line.split("|")
        # Without the lists, apt leaves the words as they stand in the format: then the release's name has to do.
        known = (origin, label) == ("Debian", "Debian")
        unread = origin.startswith("$(") and codename in SUITES.values()
        if (known or unread) and uri.startswith(("http://", "https://")):
            return uri
    return None


def options_in(configuration: str) -> tuple[str, ...]:
    """The lines with a value of what `apt-config dump` says."""
    return tuple(line for line in configuration.splitlines() if not line.endswith(' "";'))


class Suite:
    """One suite of the mirror, read by an apt whose every file lies in `directory`."""

    def __init__(self, host: Host, mirror: Mirror, name: str, directory: Path) -> None:
        self.name = name
        self.mirror = mirror
        self._host = host
        self._directory = directory
        self._fetched = False
        self._records: dict[str, Mapping[str, str]] = {}

    def package(self, name: str) -> Mapping[str, str] | None:
        """The newest record of a package (Version, Depends ...); None when the suite has none of that name."""
        if name not in self._records:
            self._update()
            said = self._host.run(self._apt("apt-cache", "show", "--no-all-versions", name), check=False)
            self._records[name] = fields(said.stdout)
        return self._records[name] or None

    def download(self, names: Sequence[str], into: Path) -> list[Path]:
        """The .deb files of these packages, in `into`, which is made. Raises CommandFailed."""
        self._update()
        into.mkdir(parents=True, exist_ok=True)
        before = set(into.iterdir())
        # apt-get downloads into the directory that it is started in.
        shell = 'cd "$1" && shift && exec "$@"'
        fetch = self._apt("apt-get", "download", "-q", *names)
        self._host.run(Command(("sh", "-c", shell, "sh", str(into), *fetch.argv), timeout_s=_NETWORK_S))
        return sorted(set(into.iterdir()) - before)

    def _update(self) -> None:
        if self._fetched:
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        for folder in ("lists/partial", "archives/partial"):
            (self._directory / folder).mkdir(parents=True, exist_ok=True)
        (self._directory / "status").touch()
        (self._directory / "sources.list").write_text(self.mirror.line(self.name) + "\n")
        (self._directory / "apt.conf").write_text(configuration(self._directory))
        self._host.run(self._apt("apt-get", "update", "-qq", "--error-on=any"))
        self._fetched = True

    def _apt(self, program: str, *arguments: str) -> Command:
        setting = f"APT_CONFIG={self._directory / 'apt.conf'}"
        return Command(("env", setting, program, *arguments), timeout_s=_NETWORK_S)


def configuration(directory: Path) -> str:
    """apt.conf of a private apt in `directory`. Read before the machine's own files, which do not name these."""
    settings = {
        "Dir::State": directory,
        "Dir::State::lists": directory / "lists",
        "Dir::State::status": directory / "status",
        "Dir::Cache": directory,
        "Dir::Cache::archives": directory / "archives",
        "Dir::Etc::sourcelist": directory / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "APT::Architecture": "amd64",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",  # its files are not for another user to read
        "APT::Update::Post-Invoke-Success": "",
    }
    return "".join(f'{name} "{value}";\n' for name, value in settings.items())


def fields(record: str) -> dict[str, str]:
    """The first record of Debian control data."""
    found: dict[str, str] = {}
    name = ""
    for line in record.strip().partition("\n\n")[0].splitlines():
        if line[:1].isspace():
            found[name] += "\n" + line.strip()
        else:
            name, _, value = line.partition(":")
            found[name] = value.strip()
    return found


# ---------------------------------------------------------------- kernels


@dataclass(frozen=True, slots=True)
class Kernel:
    suite: Suite
    version: str  # of the package: "6.12.107-1"
    release: str  # as uname -r says it: "6.12.107+deb13-amd64"
    packages: tuple[str, ...]  # that hold it and its modules

    @property
    def base(self) -> str:
        """The Debian release whose compiler it was made with."""
        return self.suite.name.removesuffix("-backports")


def kernel(debian: int, wanted: str | None, suites: Mapping[str, Suite]) -> Kernel:
    """The kernel for a root of this release: from the release, its backports, then from the others'.

    Raises BadInput that names the known ones.
    """
    known: dict[str, str] = {}
    for name in _order(debian):
        suite = suites[name]
        record = suite.package("linux-image-amd64")
        if record is None:
            continue
        version = record["Version"]
        number = ".".join(version.split(".")[:2])
        known.setdefault(number, name)
        if wanted in (None, number):
            release, packages = _made_of(suite, record)
            return Kernel(suite, version, release, packages)
    named = ", ".join(f"{number} ({name})" for number, name in known.items())
    raise BadInput(f"there is no kernel {wanted} on {suites[SUITES[debian]].mirror.uri}; give one of {named}.")


def suite_names() -> tuple[str, ...]:
    return tuple(name for suite in SUITES.values() for name in (suite, f"{suite}-backports"))


def _order(debian: int) -> tuple[str, ...]:
    own = SUITES[debian]
    return tuple(sorted(suite_names(), key=lambda name: name.removesuffix("-backports") != own))


def _made_of(suite: Suite, meta: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """uname -r and the packages that hold the files; from 6.16 on Debian splits them."""
    image = next(name for name in _depends(meta) if re.match(r"linux-image-[0-9]", name))
    record = suite.package(image)
    if record is None:
        raise Refused(f"{suite.name} names the kernel {image} and does not have it; the mirror is half updated, wait.")
    parts = [name for name in _depends(record) if name.startswith(("linux-base-", "linux-binary-", "linux-modules-"))]
    return image.removeprefix("linux-image-"), tuple(parts) or (image,)


def _depends(record: Mapping[str, str]) -> list[str]:
    return [re.split(r"[ (|:]", part.strip())[0] for part in record.get("Depends", "").split(",")]
