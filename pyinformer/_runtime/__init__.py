"""What all rooms run on: the clock, tasks and threads of the event loop, loggers, late imports."""
