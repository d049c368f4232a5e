"""A plan: which sets, which engines with which options, under which load.

TOML in, frozen values out.
"""

from pagehop_lab.plan.model import DatasetSpec, EngineSpec, Load, Plan
from pagehop_lab.plan.read import PlanError, read_text

__all__ = ["DatasetSpec", "EngineSpec", "Load", "Plan", "PlanError", "read_text"]
