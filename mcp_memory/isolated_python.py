"""Starts Python so that no code from the working directory is imported. Knows nothing of the programs it starts.

A client starts servers and hooks in a project's folder, and anybody may have written that folder. Python looks for
modules there when it is started with `-m` or `-c`, and where PYTHONPATH has an empty entry (`PYTHONPATH=:/lib`): it
would run a `json.py` beside the README of a clone.

`__main__` imports this module before it has cleaned the path, so it imports only what every interpreter has loaded.
"""

import os
import site
import sys

_SEARCHED_EVERYWHERE = ("-E", "-P")
"""Ignore PYTHON* and prepend no folder, but keep the packages that `pip install --user` made."""


def isolation_flags() -> tuple[str, ...]:
    """Return interpreter options that find this package, but nothing through environment or folder."""
    here = os.path.abspath(__file__)
    is_user_install = bool(site.ENABLE_USER_SITE) and here.startswith(os.path.join(site.getusersitepackages(), ""))
    return _SEARCHED_EVERYWHERE if is_user_install else ("-I",)


def isolated_command(module: str) -> list[str]:
    """Return the command that calls `main()` of a module in a fresh interpreter with this one's import path."""
    # The path is a literal in the program: before it is in place nothing but `sys` may be imported.
    program = f"import sys; sys.path[:] = {trusted_path()!r}; from {module} import main; main()"
    return [sys.executable, *isolation_flags(), "-c", program]


def environment_for_child() -> dict[str, str]:
    """Return this process's variables without those that configure an interpreter, such as PYTHONPATH."""
    return {name: value for name, value in os.environ.items() if not name.upper().startswith("PYTHON")}


def trusted_path() -> list[str]:
    """Return the entries of `sys.path` that the working directory has no influence on, in their order.

    Entries of the interpreter and of this package stay wherever they are: a project's own `.venv` is in its folder, and
    so is `mcp_memory` in a clone that is run unbuilt.
    """
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # The folder was removed while it was the working directory: what is in it by name is gone, too.
        return [entry for entry in sys.path if os.path.isabs(entry)]
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
    """True for the folder and everything in it. A relative entry, such as "" or `lib`, is below the working directory.

    An entry that names no file, such as the marker `__editable__.x.finder.__path_hook__`, is below nothing.
    """
    root = os.path.realpath(folder)
    is_path = not entry or os.path.isabs(entry) or os.path.exists(entry)
    return is_path and (os.path.realpath(entry) + os.sep).startswith(os.path.join(root, ""))
