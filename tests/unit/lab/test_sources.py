from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.fake_host import FakeHost

from strata.errors import BadInput, Refused
from strata.lab import sources, zfs
from strata.lab.sources import Kernel, Mirror, Suite
from strata.lab.spec import LabSpec
from strata.model import Command

MIRROR = Mirror("http://mirror.test/debian/")


def test_the_mirror_is_the_machines_own_and_debians_proper() -> None:
    said = """\
http://other.test/apt|bookworm||
http://security.test/debian-security|bookworm-security|Debian|Debian-Security
http://mirror.test/debian/|bookworm|Debian|Debian
"""
    assert sources.mirror_in(said) == "http://mirror.test/debian/"


def test_a_mirror_whose_lists_were_never_fetched_is_known_by_its_release() -> None:
    said = "http://tools.test/apt|stable|$(ORIGIN)|$(LABEL)\nhttp://mirror.test/debian/|trixie|$(ORIGIN)|$(LABEL)\n"
    assert sources.mirror_in(said) == "http://mirror.test/debian/"


def test_another_distribution_and_a_medium_are_no_mirror() -> None:
    said = "http://archive.test/ubuntu|noble|Ubuntu|Ubuntu\ncdrom://Debian/|trixie|Debian|Debian\n"
    assert sources.mirror_in(said) is None
    with pytest.raises(Refused, match=r"names no Debian mirror .*`apt-get update`"):
        sources.mirror(FakeHost(respond=lambda command: said))


def test_how_this_machine_reaches_the_mirror_holds_in_the_lab_too() -> None:
    said = 'Acquire::http "";\nAcquire::http::Proxy "http://proxy.test:3128";\nAcquire::https "";\n'
    assert sources.options_in(said) == ('Acquire::http::Proxy "http://proxy.test:3128";',)


def test_nothing_of_the_private_apt_lies_outside_its_directory() -> None:
    text = sources.configuration(Path("/cache/apt/trixie"))
    places = [line for line in text.splitlines() if line.startswith("Dir::")]
    assert [
        line for line in places if not line.partition(" ")[2].startswith(('"/cache/apt/trixie', '"/dev/null"'))
    ] == []
    kinds = {line.split("::")[1].partition(" ")[0] for line in places}
    assert kinds == {"State", "Cache", "Etc"}, "of all that apt reads and writes"


def test_only_the_newest_record_is_read() -> None:
    record = "Package: a\nVersion: 2\nDepends: b (= 2),\n c\n\nPackage: a\nVersion: 1\n"
    assert sources.fields(record) == {"Package": "a", "Version": "2", "Depends": "b (= 2),\nc"}


# ---------------------------------------------------------------- kernels

PARTS = (
    "dracut | initramfs-tools (>= 0.120), linux-base-7.2.12+deb13-amd64 (= 7.2.12-1), "
    "linux-binary-7.2.12+deb13-amd64 (= 7.2.12-1), linux-modules-7.2.12+deb13-amd64 (= 7.2.12-1)"
)
RECORDS = {
    "bookworm": {"linux-image-amd64": ("6.1.176-1", "linux-image-6.1.0-50-amd64 (= 6.1.176-1)")},
    "bookworm-backports": {
        "linux-image-amd64": ("6.12.95-1~bpo12+1", "linux-image-6.12.95+deb12-amd64 (= 6.12.95-1~bpo12+1)")
    },
    "trixie": {
        "linux-image-amd64": ("6.12.107-1", "linux-image-6.12.107+deb13-amd64 (= 6.12.107-1)"),
        "zfs-dkms": ("2.3.9", ""),
    },
    "trixie-backports": {
        "linux-image-amd64": ("7.2.12-1", "linux-base-amd64 (= 7.2.12-1), linux-image-7.2.12+deb13-amd64 (= 7.2.12-1)"),
        "linux-image-7.2.12+deb13-amd64": ("7.2.12-1", PARTS),
    },
}


class Archive:
    """Answers as apt-cache does, and remembers which suites were fetched."""

    def __init__(self, directory: Path) -> None:
        self.fetched: list[str] = []
        self.suites = {
            name: Suite(FakeHost(respond=self._answering(name)), MIRROR, name, directory / name)
            for name in sources.suite_names()
        }

    def _answering(self, suite: str) -> Callable[[Command], str | None]:
        def answer(command: Command) -> str | None:
            if "update" in command.argv:
                self.fetched.append(suite)
            if "show" not in command.argv:
                return None
            name = command.argv[-1]
            records: Mapping[str, tuple[str, str]] = RECORDS[suite]
            version, depends = records.get(name, ("", ""))
            if not version and name.startswith("linux-image-"):
                version = "1"  # a kernel from before they were split
            return f"Package: {name}\nVersion: {version}\nDepends: {depends}\n" if version else ""

        return answer


@pytest.mark.parametrize(
    ("debian", "wanted", "suite", "release"),
    [
        (13, None, "trixie", "6.12.107+deb13-amd64"),
        (13, "6.12", "trixie", "6.12.107+deb13-amd64"),
        (13, "7.2", "trixie-backports", "7.2.12+deb13-amd64"),
        (13, "6.1", "bookworm", "6.1.0-50-amd64"),
        (12, None, "bookworm", "6.1.0-50-amd64"),
        (12, "6.12", "bookworm-backports", "6.12.95+deb12-amd64"),
        (12, "7.2", "trixie-backports", "7.2.12+deb13-amd64"),
    ],
)
def test_a_kernel_comes_from_the_nearest_suite(
    tmp_path: Path, debian: int, wanted: str | None, suite: str, release: str
) -> None:
    archive = Archive(tmp_path)
    found = sources.kernel(debian, wanted, archive.suites)
    assert (found.suite.name, found.release) == (suite, release)


def test_only_the_suites_that_are_asked_are_fetched(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    sources.kernel(13, None, archive.suites)
    assert archive.fetched == ["trixie"]


def test_a_kernel_in_several_packages_is_taken_whole(tmp_path: Path) -> None:
    found = sources.kernel(13, "7.2", Archive(tmp_path).suites)
    parts = ("linux-base", "linux-binary", "linux-modules")
    assert found.packages == tuple(f"{part}-7.2.12+deb13-amd64" for part in parts)
    assert sources.kernel(13, None, Archive(tmp_path).suites).packages == ("linux-image-6.12.107+deb13-amd64",)


def test_an_unknown_kernel_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        sources.kernel(13, "5.10", Archive(tmp_path).suites)
    assert "6.12 (trixie), 7.2 (trixie-backports), 6.1 (bookworm)" in str(caught.value)
    assert "5.10" in str(caught.value)


@pytest.mark.parametrize(
    ("debian", "kernel_from", "zfs_from"),
    [
        (13, "trixie", "trixie"),
        (13, "bookworm", "trixie"),
        (13, "trixie-backports", "trixie-backports"),
        (12, "bookworm", "bookworm"),
        (12, "bookworm-backports", "bookworm-backports"),
        (12, "trixie", "bookworm-backports"),
    ],
)
def test_zfs_is_new_enough_for_the_kernel_and_fits_the_root(
    tmp_path: Path, debian: int, kernel_from: str, zfs_from: str
) -> None:
    kernel = Kernel(Archive(tmp_path).suites[kernel_from], "1", "1", ())
    assert zfs.suite(LabSpec(debian), kernel) == zfs_from
