"""Settings of all tests."""

import signal

from hypothesis import settings

# A deadline would time the machine, which is shared and noisy, and not the code.
settings.register_profile("softdict", deadline=None)
settings.load_profile("softdict")

# What a shell starts with "&" ignores Ctrl-C, and so would the processes that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
