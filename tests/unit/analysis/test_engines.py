from __future__ import annotations

from strata.analysis.engines import unlike_work

STACKS = ("disk | ext4 | docker", "disk | xfs | containerd(native)", "disk | btrfs | podman(btrfs)")


def test_engines_that_build_in_other_ways_are_named() -> None:
    build = unlike_work("container/build(builds=2)", STACKS)
    assert len(build) == 3 and "buildah builds in overlay storage of its own" in build[0]


def test_one_engine_on_several_stacks_does_the_same_work() -> None:
    same = ("disk | ext4 | docker", "disk | btrfs | docker(btrfs)")
    assert unlike_work("container/lifecycle", same) == ()
    assert unlike_work("container/density", STACKS) == () and unlike_work("fio/seqread", ("disk | ext4",)) == ()
