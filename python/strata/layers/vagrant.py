"""Vagrant with its machines on the directory below: by libvirt or VirtualBox.

It makes nothing but where the machines lie: a storage pool of libvirt, or VirtualBox's folder and settings of our own.
Its undo destroys every machine that a workload `vagrant:` left, also after a kill -9. Sources: vagrant(1), "Machine
Readable Output" and "Environmental Variables" of Vagrant's documentation, vagrant-libvirt's `storage_pool_name`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from strata.layers._driver import Driver
from strata.layers._steps import make_directory, output, said, sh, standard_reasons
from strata.model import Call, Command, Completed, Facts, Kind, LayerInfo, Param, ParamType, Place, Provides, Step

_PROVIDERS = {"libvirt": {"virsh": "libvirt-clients"}, "virtualbox": {"VBoxManage": "virtualbox"}}
_VAGRANT = {"vagrant": "vagrant"}

INFO = LayerInfo(
    name="vagrant",
    about=(
        "Vagrant, with its machines in the directory below. A Vagrantfile for libvirt says "
        'libvirt.storage_pool_name = ENV["STRATA_POOL"]; VirtualBox needs nothing.'
    ),
    params=(
        Param(
            "provider",
            ParamType.CHOICE,
            "what runs the machines",
            default="libvirt",
            choices=tuple(_PROVIDERS),
            positional=True,
        ),
    ),
    accepts=frozenset({Kind.DIRECTORY}),
    provides=None,
    deployed=False,
    tools={**_VAGRANT, **{tool: package for tools in _PROVIDERS.values() for tool, package in tools.items()}},
    last=True,
)

# Of libvirt the one that the user's shell names; where it was is noted, since the end may come from another shell.
# $1 file for the note, $2 pool, $3 directory.
_POOL = """\
uri=${LIBVIRT_DEFAULT_URI:-qemu:///system}
printf %s "$uri" > "$1" && virsh --connect "$uri" pool-create-as "$2" dir --target "$3\""""

_END_POOL = """\
[ -s "$1" ] || exit 0
uri=$(cat -- "$1")
virsh --connect "$uri" pool-list --name | grep -qxF -e "$2" || exit 0
virsh --connect "$uri" pool-destroy "$2\""""

_FOLDER = 'VBOX_USER_HOME=$1 VBoxManage setproperty machinefolder "$2"'

# $1 the directory of the scratch directories of all trials, the rest: env and what it is to set. Every Vagrantfile in
# there was written by a workload of this visit.
_DESTROY = """\
scratch=$1; shift
for file in "$scratch"/*/Vagrantfile; do
  [ -e "$file" ] || continue
  at=${file%/*}
  [ -d "$at/.vagrant" ] || continue
  "$@" VAGRANT_CWD="$at" VAGRANT_DOTFILE_PATH="$at/.vagrant" vagrant destroy -f || exit 1
done"""

_SHOW = 'test -d "$1" && if [ -n "$2" ]; then virsh --connect "$(cat -- "$2")" pool-info "$3"; fi'


class VagrantDriver(Driver):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return standard_reasons(facts, {**_VAGRANT, **_PROVIDERS[str(spec["provider"])]})

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        return replace(below[0], inside=(*below[0].inside, *_environment(spec, below[0], place)))

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        machines = _machines(below[0], place)
        steps = [make_directory(machines, "make the directory of the machines")]
        if spec["provider"] == "libvirt":
            pool = sh(_POOL, _note(place), place.name, machines)
            steps.append(Step(pool, sh(_END_POOL, _note(place), place.name), "make libvirt's pool for them"))
        else:
            steps.append(Step(sh(_FOLDER, _settings(place), machines), None, "tell VirtualBox of it"))
        destroy = sh(_DESTROY, place.scratch, *_environment(spec, below[0], place), timeout_s=1800.0)
        # Nothing is done: its undo ends what workloads start later.
        return [*steps, Step(Command(("true",)), destroy, "be ready to destroy the machines")]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        note = _note(place) if spec["provider"] == "libvirt" else ""
        return [sh(_SHOW, _machines(below[0], place), note, place.name)]

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        shown = output(seen, 0)
        if shown is None:
            return [f"vagrant: there is no place for its machines: {said(seen, 0)}."]
        if spec["provider"] == "libvirt" and "running" not in shown.stdout:
            return [f"vagrant: libvirt's pool {place.name} is not active."]
        return []


def _machines(below: Provides, place: Place) -> str:
    return f"{below.path}/{place.name}"


def _note(place: Place) -> str:
    return f"{place.dir}/uri"


def _settings(place: Place) -> str:
    return f"{place.dir}/virtualbox"


def _environment(spec: Call, below: Provides, place: Place) -> tuple[str, ...]:
    """What precedes every command of a workload."""
    provider = str(spec["provider"])
    own = f"STRATA_POOL={place.name}" if provider == "libvirt" else f"VBOX_USER_HOME={_settings(place)}"
    return ("env", f"VAGRANT_DEFAULT_PROVIDER={provider}", f"STRATA_MACHINES={_machines(below, place)}", own)


DRIVER = VagrantDriver()
