"""How ssh is called, and what it means when it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata.hosts import ssh
from strata.hosts.ssh import Identity, Server


def test_a_users_machine_is_reached_with_his_own_configuration() -> None:
    argv = ssh.client(Server("admin@nas"))
    assert argv[-2:] == ["--", "admin@nas"]
    assert "BatchMode=yes" in argv and "-F" not in argv and "-p" not in argv
    assert not any("KnownHostsFile" in word or "Identity" in word for word in argv)


def test_a_machine_of_ours_is_reached_with_nothing_of_the_users() -> None:
    server = Server("root@127.0.0.1", 2222, Identity(Path("/l b/50%/key"), Path("/l b/known")))
    argv = ssh.client(server)
    assert argv[argv.index("-F") + 1] == "none" and argv[argv.index("-p") + 1] == "2222"
    assert 'IdentityFile="/l b/50%%/key"' in argv
    assert 'UserKnownHostsFile="/l b/known"' in argv
    assert {"IdentitiesOnly=yes", "IdentityAgent=none", "StrictHostKeyChecking=yes"} <= set(argv)


def test_the_shell_line_passes_any_login_shell() -> None:
    assert not set(ssh._BOOTSTRAP) & set("'\\\n!")


CHANGED = """@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
Host key verification failed."""


@pytest.mark.parametrize(
    ("said", "what", "then"),
    [
        (CHANGED, "shows another host key", "ssh-keygen -R nas"),
        ("No ED25519 host key is known.\nHost key verification failed.", "is not known here", "log in once by hand"),
        ("admin@nas: Permission denied (publickey).", "refuses our key", "ssh -o BatchMode=yes admin@nas true"),
        ("ssh: Could not resolve hostname nas", "cannot be reached", "see that it is up"),
        ("ssh: connect to host nas port 22: Connection refused", "cannot be reached", "see that it is up"),
        ("head: error writing: No space left on device\nstrata: cannot write to /x", "no room", "make some there"),
        ("strata: this is Darwin arm64", "not Linux on x86-64", "another machine"),
        ("mkdir: Permission denied\nstrata: cannot write to /x", "cannot be copied", "can be written to"),
        ("sh: 1: exec: /x/strata-engine: Permission denied", "may not be executed", "noexec"),
        ("client_loop: send disconnect: Broken pipe", "is lost", "start again"),
    ],
)
def test_an_end_is_explained(said: str, what: str, then: str) -> None:
    text = ssh.explain(Server("admin@nas"), 255, said)
    assert what in text and then in text.partition("); ")[2] and "@@" not in text
    assert said.splitlines()[-1] in text  # what ssh said itself


def test_an_end_without_a_word() -> None:
    assert "exit code 255" in ssh.explain(Server("nas", 2222), 255, "")


def test_of_a_machine_of_ours_nobody_is_sent_to_ssh() -> None:
    ours = Server("root@127.0.0.1", 20022, Identity(Path("/l/key"), Path("/l/known")))
    text = ssh.explain(ours, 255, "kex_exchange_identification: read: Connection reset by peer")
    assert "cannot be reached" in text and "`ssh " not in text and text.endswith("when this one has less to do.")
