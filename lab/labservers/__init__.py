"""Private servers of other databases, to be measured beside Pagehop's."""
