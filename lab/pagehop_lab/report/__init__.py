"""What a run says: tables in the terminal, as CSV and JSON, and one page that opens anywhere.

Everything here is made from the raw files and can be made again; only here may files be replaced.
"""

from pagehop_lab.report.write import PAGE, compare, is_of_servers, suite_of, together, write, write_servers

__all__ = ["PAGE", "compare", "is_of_servers", "suite_of", "together", "write", "write_servers"]
