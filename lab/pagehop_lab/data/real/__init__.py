"""Real sets: vectors of texts and images in Debian packages, made here and kept in the data folder.

This file imports nothing of the others: what makes sets is installed only where they are made.
"""

NAMES = ("texts-384", "texts-384-ood", "tokens-384", "lsa-1024", "lsa-1536", "sentences-256", "sift-128")
"""The real sets, each a folder of this name in the data folder once `./dev data NAME` made it."""
