"""Running a plan: engines in processes of their own, measured in turns, everything kept."""
