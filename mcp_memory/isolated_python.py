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

    What belongs to the interpreter and where this very package lies stay wherever they are: a project's own `.venv`
    lies in its folder, and so does `mcp_memory` in a clone that is run unbuilt.
    """
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # The folder was removed while somebody stood in it.
        here = ""
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    trusted = [sys.prefix, sys.base_prefix, sys.exec_prefix, site.getusersitepackages()]
    return [
        entry
        for entry in sys.path
        if _is_at(home, entry) or not (_is_below(here, entry) and not any(_is_below(root, entry) for root in trusted))
    ]


def _is_at(folder: str, entry: str) -> bool:
    return os.path.realpath(entry) == os.path.realpath(folder)


def _is_below(folder: str, entry: str) -> bool:
    """True for the folder and all in it. A relative entry, as "" and `lib`, is below the working directory.

    What names no file, as the marker `__editable__.x.finder.__path_hook__`, is no path and below nothing.
    """
    root = os.path.realpath(folder)
    is_path = not entry or os.path.isabs(entry) or os.path.exists(entry)
    return is_path and (os.path.realpath(entry) + os.sep).startswith(os.path.join(root, ""))
