"""`vagrant:` with a stand-in for Vagrant in PATH: called as it should be, and its machines gone whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from strata.model import Outcome
from strata.store import reader

pytestmark = [
    pytest.mark.host,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="building stacks needs root"),
]

STRATA = str(Path(sys.executable).with_name("strata"))
STACK = "disk | ext4 | vagrant(virtualbox)"

# A machine is a file beside the log. What it was asked is noted with the provider and where the machines are to lie.
VAGRANT = """\
#!/bin/sh
here=$(dirname -- "$0")
echo "$* provider=$VAGRANT_DEFAULT_PROVIDER machines=$STRATA_MACHINES" >> "$here/calls"
case $1 in
  --version) echo "Vagrant 2.3.4" ;;
  up) grep -q 'vm.box' "$VAGRANT_CWD/Vagrantfile" && [ -e "$VAGRANT_CWD/provision.sh" ] || exit 1
      mkdir -p "$VAGRANT_DOTFILE_PATH" && : > "$here/machine" && sleep "$(cat "$here/takes")" ;;
  status) printf '1,default,metadata,provider,virtualbox\\n1,default,state,%s\\n' \
            "$([ -e "$here/machine" ] && cat "$here/state" || echo not_created)" ;;
  destroy) rm -f "$here/machine" ;;
esac
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    folder = tmp_path / "tools"
    folder.mkdir()
    for name, text in (("vagrant", VAGRANT), ("VBoxManage", '#!/bin/sh\necho "$VBOX_USER_HOME: $*"\n')):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "takes").write_text("0.5")
    (folder / "state").write_text("running")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "provision.sh").write_text("true\n")
    (tmp_path / "files" / "Vagrantfile").write_text(
        'Vagrant.configure("2") { |config| config.vm.box = "debian/trixie64" }\n'
    )
    return folder


def start(tmp_path: Path, tools: Path) -> subprocess.Popen[str]:
    argv = [STRATA, "run", STACK, "-w", f"vagrant:{tmp_path}/files/Vagrantfile", "--size", "disk=256M", "--rounds", "1"]
    return subprocess.Popen(
        [*argv, "--out", str(tmp_path / "run")],
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_up_is_timed_and_the_machine_is_gone(tmp_path: Path, tools: Path) -> None:
    process = start(tmp_path, tools)
    said, _ = process.communicate()
    assert process.returncode == 0, said
    (trial,) = reader.view(tmp_path / "run").trials
    assert trial.outcome is Outcome.OK, trial.reason
    assert 0.4 < trial.metrics["up_s"] < 60 and trial.metrics["machines"] == 1
    calls = [line.split() for line in (tools / "calls").read_text().splitlines()]
    ours = [line for line in calls if line[0] not in ("--version", "box")]
    assert [line[0] for line in ours][:3] == ["up", "status", "destroy"]
    assert all("provider=virtualbox" in line and {"run", "work"} <= set(line[-1].split("/")) for line in ours)
    assert not (tools / "machine").exists() and not list((tmp_path / "run" / "work").glob("*"))


def test_a_machine_that_does_not_run_is_a_failed_trial_and_gone_too(tmp_path: Path, tools: Path) -> None:
    (tools / "state").write_text("aborted")
    process = start(tmp_path, tools)
    process.communicate()
    (trial,) = reader.view(tmp_path / "run").trials
    assert trial.outcome is Outcome.FAILED and "default is aborted" in (trial.reason or "")
    assert not (tools / "machine").exists()


def test_what_a_killed_run_left_is_destroyed_by_clean(tmp_path: Path, tools: Path) -> None:
    (tools / "takes").write_text("600")
    process = start(tmp_path, tools)
    give_up = time.monotonic() + 120
    while not (tools / "machine").exists():
        assert process.poll() is None and time.monotonic() < give_up
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (tools / "machine").exists()
    cleaned = subprocess.run(
        [STRATA, "clean", str(tmp_path / "run")],
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert not (tools / "machine").exists() and not list((tmp_path / "run" / "work").glob("*"))


def test_what_is_missing_is_said_in_the_plan(tmp_path: Path) -> None:
    (tmp_path / "Vagrantfile").write_text("x")
    argv = [STRATA, "plan", "disk | ext4", "-w", f"vagrant:{tmp_path}/Vagrantfile"]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert "needs the layer vagrant" in " ".join((done.stdout + done.stderr).split())
    argv[2] = "disk | ext4 | vagrant(virtualbox)"
    done = subprocess.run(argv, capture_output=True, text=True)
    said = " ".join((done.stdout + done.stderr).split())
    if "vagrant is not installed" not in said:
        pytest.skip("Vagrant is installed here")
    assert "VBoxManage is not installed" in said
