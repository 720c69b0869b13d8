"""Tools for those who write plugins: measure, simulate, test and scaffold."""
