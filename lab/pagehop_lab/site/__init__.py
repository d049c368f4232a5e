"""A site of runs: static files in one folder, which any web server can serve, and a browser can open from disk."""

from pagehop_lab.site.build import build

__all__ = ["build"]
