"""What a measurement runs on: the machine and what decides on it, and the kernel's counters of processes."""
