"""Imports Chroma so that neither a `.env` nor the process's environment can reconfigure it.

Chroma reads both while `import chromadb` runs, and again for every client: a project's own `MIGRATIONS=` or
`CHROMA_API_IMPL=` broke the start. Its settings come from arguments alone here, and telemetry is off by default.
Knows nothing of indexes or of embedding functions.
"""

import importlib
import importlib.util
import sys
import threading
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource

from mcp_memory.errors import StoreUnavailable

_CONFIG = "chromadb.config"
_EXPORTER = "opentelemetry.exporter.otlp.proto.grpc.trace_exporter"
"""Chroma sends traces by it where settings name a collector, which ours do not: gRPC, 5 MB, 0.1 s of CPU."""
_NOT_INSTALLED = "Chroma is not installed. Install mcp-memory-stack, which brings it; mcp-memory-stack-core does not."
_DEFAULTS = {"anonymized_telemetry": False}
_importing = threading.Lock()


def is_installed() -> bool:
    """True where Chroma is installed beside us; imports nothing of it."""
    return importlib.util.find_spec("chromadb") is not None


def import_chromadb() -> ModuleType:
    """Import `chromadb`, shielded. The first call takes about a second of CPU, later ones nothing; thread-safe.

    Raises:
        StoreUnavailable: Chroma is not installed, or does not run on this machine.
    """
    with _importing:
        finder = _ShieldingFinder()
        sys.meta_path.insert(0, finder)
        stub = ModuleType(_EXPORTER)
        stub.__dict__["OTLPSpanExporter"] = None
        found = sys.modules.setdefault(_EXPORTER, stub)
        try:
            chromadb = importlib.import_module("chromadb")
        except (ImportError, RuntimeError) as error:  # Chroma raises RuntimeError for an SQLite that is too old.
            reason = (
                f"cannot be loaded ({error}). Install mcp-memory-stack again." if is_installed() else _NOT_INSTALLED
            )
            raise StoreUnavailable(f"Chroma {reason}") from error
        finally:
            sys.meta_path.remove(finder)
            if found is stub:
                del sys.modules[_EXPORTER]
        _shield(sys.modules[_CONFIG])  # In case other code imported Chroma first.
        return chromadb


class _ShieldingFinder(MetaPathFinder):
    """Finds Chroma's module of settings, to shield it before the rest of Chroma makes its first settings."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _CONFIG:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        if found is None or found.origin is None:
            return None
        loader = _ShieldingLoader(fullname, found.origin)
        return importlib.util.spec_from_file_location(fullname, found.origin, loader=loader)


class _ShieldingLoader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        _shield(module)


def _shield(config: ModuleType) -> None:
    settings: type[BaseSettings] = config.Settings
    # The file is opened before the sources are chosen: one that is not UTF-8 would still stop the start.
    settings.model_config["env_file"] = None
    settings.settings_customise_sources = classmethod(_from_arguments_alone)  # pyrefly: ignore[bad-assignment, method-assign] - as a subclass would


def _from_arguments_alone(
    _cls: type[BaseSettings],
    settings_cls: type[BaseSettings],
    init_settings: PydanticBaseSettingsSource,
    **_environment: Any,
) -> tuple[PydanticBaseSettingsSource, ...]:
    return init_settings, InitSettingsSource(settings_cls, _DEFAULTS)
