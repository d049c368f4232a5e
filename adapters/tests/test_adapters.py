"""Every adapter as a package: its wheel, its requirements and its README."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ADAPTERS = Path(__file__).parents[1]
PACKAGES = sorted(file.parent for file in ADAPTERS.glob("*/pyproject.toml"))
NAMES = {
    "django": "django",
    "langchain_core": "langchain-core",
    "llama_index": "llama-index-core",
    "numpy": "numpy",
    "pagehop": "pagehop",
    "pagehop_documents": "pagehop-documents",
    "pgvector": "pgvector",
    "sqlalchemy": "sqlalchemy",
}
"""The package of each imported module."""


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_wheel_has_the_modules_and_requires_what_they_import(package: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(tmp_path), str(package)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        about = Parser().parsestr(opened.read(next(name for name in names if name.endswith("/METADATA"))).decode())
    modules = {name for name in names if name.endswith(".py")}
    sources = {str(file.relative_to(package)) for file in package.rglob("*.py") if "tests" not in file.parts}
    assert modules == sources
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    required = {requirement.partition(">")[0].strip() for requirement in about.get_all("Requires-Dist", [])}
    own = tomllib.loads((package / "pyproject.toml").read_text())["project"]["name"]
    assert required >= {NAMES[name] for source in sources for name in imported(package / source)} - {own}
    assert (about["Name"], about["License-Expression"], about["Requires-Python"]) == (own, "PostgreSQL", ">=3.11")


def imported(file: Path) -> set[str]:
    """Modules outside of the standard library and of this package that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [name.name for name in node.names] if isinstance(node, ast.Import) else []
        # The adapter for LlamaIndex is in LlamaIndex's own namespace package.
        found |= {name.partition(".")[0] for name in names if not name.startswith("llama_index.vector_stores.pagehop")}
    own = {path.name for path in file.parents if (path.parent / "pyproject.toml").exists()} - {"llama_index"}
    return {name for name in found if name not in sys.stdlib_module_names} - own


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_the_first_block_of_a_readme_runs(package: Path, tmp_path: Path) -> None:
    code = (package / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
    assert code, f"{package.name}/README.md shows no code"
    path = ":".join(str(folder) for folder in PACKAGES)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=tmp_path, env={"PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
