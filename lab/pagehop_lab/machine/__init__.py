"""The machine of a measurement and its settings, and the kernel's counters of processes."""
