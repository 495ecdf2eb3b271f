"""What `strata recipe` refuses before it writes anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from strata.cli.recipe import Where, made_of, recipe
from strata.errors import BadInput, Refused

WHERE = Where(["disk=/dev/disk/by-id/wwn-0"], ["disk=100G"])


@pytest.mark.parametrize(
    ("stack", "said"),
    [
        ("disk | lxd", "needs a directory"),
        ("disk | ext4 | docker(btrfs)", "needs btrfs below it"),
        ("disk | ext4 | incus(zfs)", "needs zfs below it"),
        ("disk | ext4 | podman(base_size=1G)", "quotas of xfs"),
        ("disk | docker", "needs a directory"),
    ],
)
def test_no_recipe_is_made_of_what_no_machine_can_build(stack: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        made_of(stack, None, WHERE)


def test_what_can_be_built_has_one() -> None:
    made = made_of("disk | btrfs | docker(btrfs)", None, WHERE)
    assert [node.call.name for node in made.above] == ["docker"]


@pytest.mark.parametrize(("form", "said"), [("fstab", "is to be added to /etc/fstab"), ("systemd", "belongs at /etc/")])
def test_a_file_that_others_share_is_not_said_to_be_put_in_its_place(
    form: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe("disk | ext4", None, form, WHERE, None, tmp_path)
    assert said in capsys.readouterr().out


def made_in(out: Path) -> None:
    recipe("disk | ext4", None, "shell", WHERE, None, out)


def test_a_recipe_replaces_a_link_and_never_follows_it(tmp_path: Path) -> None:
    victim, out = tmp_path / "victim", tmp_path / "out"
    victim.write_text("precious")
    made_in(out)
    (script,) = out.iterdir()
    script.unlink()
    script.symlink_to(victim)
    made_in(out)
    assert victim.read_text() == "precious" and not script.is_symlink() and "mkfs.ext4" in script.read_text()


def test_a_directory_in_which_others_could_change_the_recipe_is_refused(tmp_path: Path) -> None:
    shared, link = tmp_path / "shared", tmp_path / "link"
    shared.mkdir()
    shared.chmod(0o777)
    link.symlink_to(tmp_path)
    for out, said in ((shared, "writable by other users"), (shared / "new", "by every user"), (link, "symbolic link")):
        with pytest.raises(Refused, match=said):
            made_in(out)
    assert not any(shared.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_a_directory_of_another_user_is_refused_for_a_recipe(tmp_path: Path) -> None:
    out = tmp_path / "theirs"
    out.mkdir()
    os.chown(out, 4242, 4242)
    with pytest.raises(Refused, match="belongs to user 4242"):
        made_in(out)
    assert not any(out.iterdir())


def test_a_recipe_is_closed_to_others_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made_in(tmp_path / "above" / "out")
    finally:
        os.umask(before)
    assert not [path for path in tmp_path.rglob("*") if path.stat().st_mode & 0o022]
