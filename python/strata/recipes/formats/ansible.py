"""A playbook: it installs what is needed, puts the shell recipe in place, applies it where it is not applied yet, and
has systemd bring it back at boot.

The recipe itself is the shell script, which changes nothing where the stack is in place; so the playbook is idempotent
for every stack, also for those that no module of Ansible can make (a dm-cache, VDO).
"""

from __future__ import annotations

import io
import re

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from strata.errors import BadInput
from strata.recipes import shell
from strata.recipes.formats._parts import afterwards, commented, heading
from strata.recipes.formats._units import units
from strata.recipes.plan import Recipe
from strata.recipes.written import File, Format


def write(recipe: Recipe) -> tuple[File, ...]:
    script = f"/usr/local/sbin/strata-{recipe.name}"
    placed = units(recipe)
    written = (shell.render(recipe), *(unit.text for unit in placed))
    if "endraw" in "".join(written) or re.search(r"\{[{%#]", recipe.stack):
        raise BadInput(
            "--as ansible: the recipe holds words of Jinja, which Ansible would carry out; take --as shell, or change "
            "the name of the campaign or of what the stack stands on."
        )
    packages = sorted({package.split(" ")[0] for package in recipe.packages().values()})
    play = {
        "name": f"{recipe.name}: {recipe.stack}",
        "hosts": "all",
        "become": True,
        "vars": {"strata_wipe": False},
        "tasks": [
            {
                "name": "The programs of the layers are there",
                "ansible.builtin.apt": {"name": packages, "state": "present"},
                "when": "ansible_facts['os_family'] == 'Debian'",
            },
            {
                "name": "The recipe is there",
                "ansible.builtin.copy": {
                    "dest": script,
                    "mode": "0755",
                    # an escape of Jinja: the script may hold what looks like its braces
                    "content": LiteralScalarString(f"{{% raw %}}{written[0]}{{% endraw %}}\n"),
                },
            },
            {
                "name": "Is the stack in place?",
                "ansible.builtin.command": {"argv": [script, "check"]},
                "register": "strata_check",
                "changed_when": False,
                "failed_when": False,
                "check_mode": False,
            },
            {
                "name": "The stack is in place",
                "ansible.builtin.command": {
                    "argv": f"{{{{ ['{script}', 'apply'] + (['--wipe'] if strata_wipe | bool else []) }}}}"
                },
                "when": "strata_check.rc != 0",
            },
            *(
                {
                    "name": f"The unit {unit.name} is there",
                    "ansible.builtin.copy": {
                        "dest": unit.place,
                        "mode": "0644",
                        "content": LiteralScalarString(f"{{% raw %}}{unit.text}{{% endraw %}}\n"),
                    },
                }
                for unit in placed
            ),
            *(
                {
                    "name": f"{unit.name} is started at boot",
                    "ansible.builtin.systemd_service": {"name": unit.name, "enabled": True, "daemon_reload": True},
                    "when": "not ansible_check_mode",  # there the unit was not written
                }
                for unit in placed
            ),
        ],
    }
    text = io.StringIO()
    yaml = YAML()
    yaml.width = 4096
    yaml.dump([play], text)
    disable = f"`systemctl disable {' '.join(unit.name for unit in placed)}`, and " if placed else ""
    remarks = heading(recipe) + afterwards(
        f"`{script} check`, on the machine",
        f"{disable}`{script} remove`, which refuses while it would cost data, unless --destroy-data is added.",
    )
    return (File(f"{recipe.name}.yaml", commented(remarks) + text.getvalue()),)


FORMAT = Format("ansible", "a playbook that applies the shell recipe where the stack is not in place", write)
