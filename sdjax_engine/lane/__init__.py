"""One lane on the devices: the arrays of its seats, its compiled programs, and how many seats fit."""
