"""`mkfs=` holds options that are known, and nothing that a program could take for a file or device."""

from __future__ import annotations

import getopt
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.layers import drivers
from strata.layers._mkfs import BTRFS, EXT4, F2FS, XFS, Options
from strata.model import Call

from .layer_cases import facts, spec

# What each program gives to getopt(3), from the programs of Debian 12.
GETOPT = {
    "ext4": (EXT4, "b:cd:e:g:i:jl:m:no:qr:s:t:vC:DE:FG:I:J:KL:M:N:O:R:ST:U:Vz:", ()),
    "xfs": (XFS, "b:c:d:i:l:L:m:n:KNp:qr:s:CfV", ("unsupported",)),
    "btrfs": (
        BTRFS,
        "A:b:fl:n:s:m:d:L:R:O:r:U:VvMKq",
        (
            "byte-count=",
            "csum=",
            "checksum=",
            "force",
            "nodesize=",
            "sectorsize=",
            "metadata=",
            "data=",
            "label=",
            "runtime-features=",
            "features=",
            "rootdir=",
            "uuid=",
            "mixed",
            "nodiscard",
            "shrink",
            "quiet",
            "verbose",
            "version",
            "help",
        ),
    ),
    "f2fs": (F2FS, "qa:c:C:d:e:E:g:hil:mo:O:rR:s:S:z:t:T:U:Vfw:", ()),
}


def reasons(layer: str, text: str) -> list[str]:
    call: Call = spec(layer, {"mkfs": text})
    return drivers()[layer].reasons_not_to_run(call, facts())


@pytest.mark.parametrize("layer", GETOPT)
def test_the_table_and_the_program_agree_on_which_options_take_a_value(layer: str) -> None:
    options, short, long = GETOPT[layer]
    for name, kind in options.allowed.items():
        if len(name) == 1:
            assert (f"{name}:" in short) is (kind is not None), name
            assert name in short
        else:
            assert (f"{name}=" in long) is (kind is not None), name


@pytest.mark.parametrize(
    ("layer", "text", "told"),
    [
        # the device of the stack would come second, or a file of the current directory be formatted
        ("btrfs", "x.img", "'x.img' is neither an option of mkfs.btrfs nor the value of one"),
        ("btrfs", "-K sdb", "'sdb' is neither"),
        ("ext4", "-b 4096 sdb 100000", "'100000' is neither"),
        ("xfs", "-f sdb", "'sdb' is neither"),
        ("f2fs", "-q sdb 4096", "'sdb' is neither"),
        ("btrfs", "-- sdb", "does not take '--'"),
        ("btrfs", "-", "'-' is neither"),
        # options that name files or devices
        ("ext4", "-d etc", "-d names a directory or archive to copy"),
        ("ext4", "-qd etc", "-d names a directory"),
        ("ext4", "-z undo", "-z names a file for undoing"),
        ("ext4", "-l bad", "-l names a file of bad blocks"),
        ("ext4", "-M srv", "-M names a mount point"),
        ("ext4", "-J device=sdb", "does not take 'device' in -J"),
        ("ext4", "-J size=4,device=sdb", "does not take 'device' in -J"),
        ("ext4", "-Joffset,device=sdb", "does not take 'device' in -J"),
        ("ext4", "-E offset=1024", "does not take 'offset' in -E"),
        ("xfs", "-p proto", "-p names a file of files to make"),
        ("xfs", "-c options=x", "-c names a file of options"),
        ("xfs", "-r rtdev=sdb", "-r names a device"),
        ("xfs", "-l logdev=sdb,size=64m", "does not take 'logdev' in -l"),
        ("xfs", "-d file,name=x.img,size=1g", "does not take 'name' in -d"),
        ("xfs", "-dname=x.img", "does not take 'name' in -d"),
        ("btrfs", "--rootdir etc", "--rootdir names a directory"),
        ("btrfs", "--rootdir=etc", "--rootdir names a directory"),
        ("btrfs", "-r etc", "-r names a directory"),
        ("btrfs", "--subvol=etc", "--subvol names a directory"),
        ("f2fs", "-c sdb,sdc", "-c names further devices"),
        # the beginning of an option, an option that is not known, one that changes whether anything is made
        ("btrfs", "--root etc", "does not take '--root'"),
        ("btrfs", "--no", "does not take '--no'"),
        ("ext4", "-F", "does not take '-F'"),
        ("ext4", "-n", "does not take '-n'"),
        ("xfs", "-N", "does not take '-N'"),
        ("xfs", "-C", "does not take '-C'"),
        ("ext4", "-b", "is not complete"),
        ("btrfs", "--mixed=yes", "is not complete"),
        ("ext4", "-b x.img", "has 'x.img' as the value of -b"),
    ],
)
def test_what_could_name_a_file_or_a_device_is_refused(layer: str, text: str, told: str) -> None:
    given_reasons = reasons(layer, text)
    assert any(told in reason for reason in given_reasons), given_reasons
    assert all(reason.endswith(".") for reason in given_reasons)


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        ("ext4", "-b 4096 -E stride=16,stripe-width=32 -O ^huge_file,64bit -T largefile4 -m 0 -i 65536 -I 256"),
        ("ext4", "-K"),
        ("ext4", "-Enodiscard -L 'a b' -J size=64 -G 32 -C 64K -v"),
        ("xfs", "-K -d agcount=2 -L 'a b'"),
        (
            "xfs",
            "-b size=4096 -m crc=1,reflink=0 -i size=512,sparse=1 -n size=8192 -s size=4096 -l size=64m,lazy-count=1",
        ),
        ("xfs", "--unsupported -d su=64k,sw=2"),
        (
            "btrfs",
            "--nodesize 32768 -s 4k --csum=xxhash -O no-holes,^extref -R free-space-tree --mixed -K",
        ),
        ("f2fs", "-O extra_attr,compression -s 4 -o 5 -t 0 -g android -e mp4,mkv"),
    ],
)
def test_what_tunes_a_file_system_is_taken(layer: str, text: str) -> None:
    assert reasons(layer, text) == []


@pytest.mark.parametrize(
    ("layer", "text", "instead"),
    [
        ("ext4", "-O ^has_journal", "the argument journal"),
        ("ext4", "-O 64bit,^HAS_JOURNAL", "the argument journal"),
        ("ext4", "-Onone,64bit", "the argument journal"),
        ("ext4", "-O ^FEATURE_C2", "the argument journal"),
        ("btrfs", "-d raid5", "a profile such as btrfs(raid1)"),
        ("btrfs", "--metadata=raid0", "the argument metadata"),
        ("btrfs", "-Kmsingle", "the argument metadata"),
    ],
)
def test_what_documents_warn_of_is_not_hidden_in_it(layer: str, text: str, instead: str) -> None:
    """The judge of documented facts reads arguments, not the words for mkfs."""
    (reason,) = reasons(layer, text)
    assert instead in reason and reason.endswith(" instead.")


WORDS = st.sampled_from(
    [
        "sdb",
        "x.img",
        "--",
        "-",
        "-K",
        "-q",
        "-f",
        "-M",
        "-b",
        "-b4096",
        "4096",
        "-L",
        "-Lname",
        "label",
        "-d",
        "-dagcount=2",
        "agcount=2",
        "name=x",
        "-r",
        "-l",
        "logdev=sdb",
        "-E",
        "-Estride=4",
        "stride=4",
        "offset=1",
        "-O",
        "^has_journal",
        "-Kq",
        "-qd",
        "-fK",
        "-Kfsdb",
        "--mixed",
        "--mix",
        "--nodesize=16k",
        "--nodesize",
        "--label",
        "--rootdir",
        "--rootdir=x",
        "--csum",
        "xxhash",
        "-m",
        "crc=1",
        "-c",
        "-s",
        "-t",
        "0",
        "-N",
        "-n",
        "-F",
        "-S",
        "-U",
        "-z",
        "-J",
        "device=x",
        "size=4",
    ]
)


@pytest.mark.parametrize("layer", GETOPT)
@given(words=st.lists(WORDS | st.text(alphabet="-abdKLqE=,^x4. ", min_size=1, max_size=6), max_size=5))
def test_every_word_that_is_taken_is_an_allowed_option_or_its_value(layer: str, words: list[str]) -> None:
    """As the program itself reads them, with all the options that it has."""
    options, short, long = GETOPT[layer]
    if reasons(layer, shlex.join(words)):
        return
    found, rest = getopt.gnu_getopt(words, short, list(long))
    assert rest == []
    assert "--" not in words
    assert all(name.lstrip("-") in options.allowed for name, _ in found)


def test_a_table_names_no_option_twice() -> None:
    tables: list[Options] = [options for options, _, _ in GETOPT.values()]
    assert all(not set(table.allowed) & set(table.naming) for table in tables)
