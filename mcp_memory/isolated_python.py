"""Starts Python so that the folder a person works in never lends it code. Knows nothing of what is started.

A client starts servers and hooks in the folder of a project, and that folder may have come from anybody. Python looks
for modules there when it is started with `-m` or `-c`, and where PYTHONPATH has an empty entry (`PYTHONPATH=:/lib`): a
`json.py` beside the README of a clone would be run.

`__main__` imports this module before it has cleaned the path, so it imports only what every interpreter has loaded.
"""

import os
import site
import sys

_SEARCHED_EVERYWHERE = ("-E", "-P")
"""Ignore PYTHON* and prepend no folder, but keep the packages that `pip install --user` made."""


def isolation_flags() -> tuple[str, ...]:
    """The interpreter's options for a process that finds this package, and nothing by its environment or its folder."""
    here = os.path.abspath(__file__)
    is_user_install = bool(site.ENABLE_USER_SITE) and here.startswith(os.path.join(site.getusersitepackages(), ""))
    return _SEARCHED_EVERYWHERE if is_user_install else ("-I",)


def isolated_command(module: str) -> list[str]:
    """The command that calls `main()` of a module in a fresh interpreter, which finds what this one finds."""
    # The path is a literal in the program: before it is in place nothing but `sys` may be imported.
    program = f"import sys; sys.path[:] = {trusted_path()!r}; from {module} import main; main()"
    return [sys.executable, *isolation_flags(), "-c", program]


def environment_for_child() -> dict[str, str]:
    """The variables of this process without those that configure an interpreter, as PYTHONPATH and PYTHONSTARTUP."""
    return {name: value for name, value in os.environ.items() if not name.upper().startswith("PYTHON")}


def trusted_path() -> list[str]:
    """The entries of `sys.path` that the working directory has no part in, in their order.

    The working directory stays where this very package lies in it, as in a clone whose `mcp_memory` is run unbuilt.
    """
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # The folder was removed while somebody stood in it.
        here = ""
    home = os.path.realpath(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return [entry for entry in sys.path if here == home or not _depends_on(here, entry)]


def _depends_on(folder: str, entry: str) -> bool:
    """True for "", for a relative path such as `lib` and for the folder itself, however it is spelt.

    What names no file, as the marker `__editable__.x.finder.__path_hook__`, is no path at all and stays.
    """
    if os.path.isabs(entry):
        return os.path.realpath(entry) == folder
    return not entry or os.path.exists(entry)
