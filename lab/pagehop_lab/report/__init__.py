"""What a run says: tables in the terminal, as CSV and JSON, and one page that opens anywhere.

Everything here is made from the raw files and can be made again; only here may files be replaced.
"""

from pagehop_lab.report.write import PAGE, compare, read, together, write

__all__ = ["PAGE", "compare", "read", "together", "write"]
