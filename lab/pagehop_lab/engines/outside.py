"""Engines from a Python file that is not in this repository: `--engine mine.py`.

The file has one class or more, like those in this folder. The lab reads their descriptions; the
process that holds an engine imports the file again, so it imports its library within its methods.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from pagehop_lab.engines.catalog import CATALOG
from pagehop_lab.engines.engine import Description, EngineError, Library, Served

_CHECKSUMS: dict[str, str] = {}


def add(path: Path) -> list[str]:
    """Adds the engines of a file to the catalog and returns their names.

    Raises EngineError if there are none, or if they cannot be used.
    """
    module = _imported(path)
    own = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, (Library, Served)) and value.__module__ == module.__name__
    ]
    engines = [kind for kind in own if isinstance(vars(kind).get("description"), Description)]
    if not engines:
        raise EngineError(
            f"{path}: it has no class with a description that is a Library or Served: see engines/engine.py"
        )
    for kind in engines:
        missing = sorted(getattr(kind, "__abstractmethods__", ()))
        if missing:
            raise EngineError(f"{path}: {kind.__name__} lacks {', '.join(missing)}")
        name = kind.description.name
        if name in CATALOG and CATALOG[name].__module__ != module.__name__:
            raise EngineError(f"{path}: there is an engine {name} already: give {kind.__name__} another name")
        CATALOG[name] = kind
        _CHECKSUMS[name] = hashlib.sha256(path.read_bytes()).hexdigest()[:7]
    return [kind.description.name for kind in engines]


def version(name: str, said: str) -> str:
    """The version of an engine.

    Outside engines add that of their file, which may change between two runs.
    """
    return f"{said}, file {_CHECKSUMS[name]}" if name in _CHECKSUMS else said


def _imported(path: Path) -> ModuleType:
    if not path.is_file() or path.suffix != ".py" or not path.stem.isidentifier():
        raise EngineError(f"{path}: an engine is a Python file whose name is a word, such as mine.py")
    taken = sys.modules.get(path.stem)
    if taken is not None and getattr(taken, "__file__", None) != str(path.resolve()):
        raise EngineError(f"{path}: there is a Python module {path.stem} already: give the file another name")
    found = importlib.util.spec_from_file_location(path.stem, path.resolve())
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[path.stem] = module
    try:
        found.loader.exec_module(module)
    except Exception as error:
        del sys.modules[path.stem]
        raise EngineError(f"{path}: {type(error).__name__}: {error}") from error
    return module
