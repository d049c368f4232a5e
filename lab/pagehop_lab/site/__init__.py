"""A site of runs: static files in one folder, for any web server, or for a browser without one."""

from pagehop_lab.site.build import build

__all__ = ["build"]
