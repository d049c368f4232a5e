"""Makes what people install, and tries it in an empty Debian: wheels and Debian packages."""
