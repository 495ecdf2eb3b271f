"""A playbook: it installs what is needed, puts the shell recipe in place and applies it where it is not applied yet.

The recipe itself is the shell script, which changes nothing where the stack is in place; so the playbook is idempotent
for every stack, also for those that no module of Ansible can make (a dm-cache, VDO).
"""

from __future__ import annotations

import io

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from strata.recipes import shell
from strata.recipes.formats._parts import afterwards, commented
from strata.recipes.plan import Recipe
from strata.recipes.written import File, Format


def write(recipe: Recipe) -> tuple[File, ...]:
    script = f"/usr/local/sbin/strata-{recipe.name}"
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
                    "content": LiteralScalarString(f"{{% raw %}}{shell.render(recipe)}{{% endraw %}}\n"),
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
        ],
    }
    text = io.StringIO()
    yaml = YAML()
    yaml.width = 4096
    yaml.dump([play], text)
    remarks = afterwards(
        f"`{script} check`, on the machine", f"`{script} remove`; with --destroy-data the data go too."
    )
    return (File(f"{recipe.name}.yaml", commented(remarks) + text.getvalue()),)


FORMAT = Format("ansible", "a playbook that applies the shell recipe where the stack is not in place", write)
