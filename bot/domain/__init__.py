"""What all packages speak of: jobs, quotas, holds, sizes, errors; plain data and pure functions."""
