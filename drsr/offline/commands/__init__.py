"""One file per offline command: arguments in, a function of the package called, its result printed."""
