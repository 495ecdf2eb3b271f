"""What Vagrant says of its machines, and what comes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strata.errors import WorkloadFailed
from strata.model import Kind, Measured, Target, TrialOutput
from strata.workloads import workloads
from strata.workloads.vagrant import states_of

from .workload_calls import call

# As in "Machine Readable Output" of Vagrant's documentation, with the lines that 2.3 writes beside them.
STATUS = """\
1763705000,web,metadata,provider,libvirt
1763705000,db,metadata,provider,libvirt
1763705001,web,provider-name,libvirt
1763705001,web,state,running
1763705001,web,state-human-short,running
1763705001,web,state-human-long,The Libvirt domain is running. To stop this machine%!(VAGRANT_COMMA) run `vagrant halt`.
1763705001,db,provider-name,libvirt
1763705001,db,state,{db}
1763705001,,ui,info,Current machine states:\\n\\nweb                       running (libvirt)
"""
TIMES = "begin=100.10\nup=142.60\nasked=144.00\ngone=149.25\n"


def read(exit_code: int = 0, stderr: str = "", **files: str) -> Measured:
    files = {"times": TIMES, "status": STATUS.format(db="running"), "log": ""} | files
    return workloads()["vagrant:"].read(call("vagrant:", content=""), TrialOutput(exit_code, 50.0, "", stderr, files))


def test_every_machine_has_its_state() -> None:
    assert states_of(STATUS.format(db="not_created")) == {"web": "running", "db": "not_created"}
    assert states_of("") == {} and states_of("nonsense\n1,2\n") == {}


def test_up_and_destroy_are_timed() -> None:
    measured = read()
    assert measured.metrics == {"up_s": pytest.approx(42.5), "destroy_s": pytest.approx(5.25), "machines": 2}


def test_without_machines_that_run_there_is_no_figure() -> None:
    with pytest.raises(WorkloadFailed, match="db is poweroff"):
        read(status=STATUS.format(db="poweroff"))
    with pytest.raises(WorkloadFailed, match="of no machine"):
        read(status="")
    with pytest.raises(WorkloadFailed, match="no box"):
        read(exit_code=1, stderr="there is no box of this name\n")
    with pytest.raises(WorkloadFailed, match="not all noted"):
        read(times="begin=1\n")


def test_the_machines_are_destroyed_whatever_came_of_them() -> None:
    plan = workloads()["vagrant:"].plan(call("vagrant:", content="x"), Target(Kind.DIRECTORY, "/t", None), "/s", 1)
    script = plan.measure.argv[2]
    up, destroy = script.index("vagrant up >"), script.index("vagrant destroy -f >> .strata/log 2>&1\ngone")
    assert up < script.index("status --machine-readable") < destroy and "&&" not in script[up:destroy]
    assert plan.put == {"/s/Vagrantfile": "x"} and plan.prepare == ()


VAGRANTFILE = """\
# config.vm.box = "old/box"
Vagrant.configure("2") do |config|
  config.vm.box = "debian/trixie64"
  config.vm.define("db") { |db| db.vm.box = 'generic/alma9' }
  config.vm.provision "shell", path: "provision.sh"
end
"""


def test_boxes_are_fetched_before_the_clock_starts() -> None:
    plan = workloads()["vagrant:"].plan(
        call("vagrant:", content=VAGRANTFILE), Target(Kind.DIRECTORY, "/t", None), "/s", 1
    )
    (fetch,) = plan.prepare
    assert fetch.argv[3:] == ("sh", "/s", "debian/trixie64", "generic/alma9")


def test_a_box_that_up_had_to_fetch_is_told_of() -> None:
    had, has = "debian/trixie64 (libvirt, 13.1)\n", "debian/trixie64 (libvirt, 13.1)\nown (libvirt, 0)\n"
    assert read(before=has, after=has).notes == ()
    (note,) = read(before=had, after=has).notes
    assert note.startswith("up_s has the download of the box own (libvirt, 0) in it")
    none = "There are no installed boxes! Use `vagrant box add` to add some.\n"
    assert len(read(before=none, after=had).notes) == 1


def test_a_file_brings_what_lies_beside_it() -> None:
    written = call("vagrant:", content="x")
    lying = replace(written, values={**written.values, "file": "/own/Vagrantfile"})
    workload = workloads()["vagrant:"]
    (bring,) = workload.plan(lying, Target(Kind.DIRECTORY, "/t", None), "/s", 1).prepare
    assert bring.argv[3:] == ("sh", "/own/Vagrantfile", str(64 << 20), "/s")
    assert workload.checks(written) == [] and "/own/Vagrantfile" in workload.checks(lying)[0].argv
