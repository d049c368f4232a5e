"""Makes the packages that users install, and tries them: wheels, Debian packages, crates and the
archive for PGXN.
"""
