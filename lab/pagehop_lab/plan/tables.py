"""Takes values out of TOML tables one by one. A value that is left over is an error."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

Value = TypeVar("Value")


class PlanError(Exception):
    """A plan that cannot be run; the text says where and what would be correct."""


class Table:
    """A table of a plan at a place such as `engine[2].build`."""

    def __init__(self, place: str, values: Any) -> None:
        if not isinstance(values, Mapping):
            raise PlanError(f"{place} is {_kind(values)}, it should be a table")
        self.place = place
        self._left = dict(values)
        self._known: list[str] = []

    def at(self, name: str) -> str:
        """The place of a key."""
        return f"{self.place}.{name}" if self.place else name

    def take(self, name: str, kind: type[Value], default: Value, least: float | None = None) -> Value:
        """The value of a key, checked; `default` if it is not there."""
        self._known.append(name)
        if name not in self._left:
            return default
        return checked(self.at(name), self._left.pop(name), kind, least)

    def take_some(self, name: str, kind: type[Value], least: float | None = None) -> Value | None:
        """The value of a key, or None."""
        self._known.append(name)
        return checked(self.at(name), self._left.pop(name), kind, least) if name in self._left else None

    def need(self, name: str, kind: type[Value]) -> Value:
        """The value of a key that must be there."""
        self._known.append(name)
        if name not in self._left:
            self.refuse_unknown(so_far=True)
            raise PlanError(f"{self.at(name)} is missing")
        return checked(self.at(name), self._left.pop(name), kind)

    def take_list(
        self, name: str, kind: type[Value], default: tuple[Value, ...], least: float | None = None
    ) -> tuple[Value, ...]:
        """The values of a key: a list, or one value for a list of one."""
        self._known.append(name)
        return listed(self.at(name), self._left.pop(name), kind, least) if name in self._left else default

    def take_tables(self, name: str) -> list[Table]:
        """The tables of `[[name]]`."""
        self._known.append(name)
        given = self._left.pop(name, [])
        if not isinstance(given, list):
            raise PlanError(f"{self.at(name)} is {_kind(given)}, it should be written as [[{name}]]")
        return [Table(f"{self.at(name)}[{number}]", one) for number, one in enumerate(given, start=1)]

    def take_table(self, name: str) -> Table:
        """The table `[name]`; an empty one if it is not there."""
        self._known.append(name)
        return Table(self.at(name), self._left.pop(name, {}))

    def take_any(self, name: str) -> Any:
        """The value, of any type, or None."""
        self._known.append(name)
        return self._left.pop(name, None)

    def rest(self) -> dict[str, Any]:
        """All values that were not taken: names that only another reader knows."""
        taken, self._left = self._left, {}
        return taken

    def refuse_unknown(self, so_far: bool = False) -> None:
        """Fails if a key was not taken. With `so_far`, only if it resembles an expected key."""
        for name in self._left:
            meant = nearest(name, self._known)
            if meant is None and so_far:
                continue
            raise PlanError(f"{self.at(name)}: there is no such key{_suggested(meant, self._known)}")


def choose(place: str, given: str, known: Collection[str]) -> str:
    """`given`, if it is one of `known`."""
    if given not in known:
        raise PlanError(f"{place} = {given!r}: there is no such choice{_suggested(nearest(given, known), known)}")
    return given


def nearest(given: str, known: Collection[str]) -> str | None:
    """The name that was probably meant."""
    return next(iter(difflib.get_close_matches(given, known, n=1, cutoff=0.5)), None)


def _suggested(meant: str | None, known: Collection[str]) -> str:
    return f"; did you mean {meant}?" if meant else f"; there are {', '.join(sorted(known))}"


def checked(place: str, value: Any, kind: type[Value], least: float | None = None) -> Value:
    """`value` if it is of a kind and not too little; whole numbers count as numbers."""
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise PlanError(f"{place} is {_kind(value)}, it should be {_NAMES.get(kind, kind.__name__)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise PlanError(f"{place} = {value}: it should be a number that is not infinite")
    if least is not None and isinstance(value, int | float) and not least <= value <= 1e15:
        raise PlanError(f"{place} = {value}: the least is {least:g}")
    return value


def listed(place: str, value: Any, kind: type[Value], least: float | None = None) -> tuple[Value, ...]:
    """A list of checked values, none of them twice; one value is a list of one."""
    values = value if isinstance(value, list) else [value]
    if not values:
        raise PlanError(f"{place} is an empty list")
    kept = tuple(checked(f"{place}[{number}]", one, kind, least) for number, one in enumerate(values, start=1))
    if len(set(kept)) < len(kept):
        raise PlanError(f"{place} has a value twice")
    return kept


_NAMES: dict[Any, str] = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    named = {str: "text", int: "a whole number", float: "a number", list: "a list", dict: "a table"}
    return named.get(type(value), type(value).__name__)
