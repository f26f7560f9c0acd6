"""Settings of all tests."""

import os
import signal

from hypothesis import settings

# FAISS's and torch's threads wait for one another by spinning, which on a machine that is shared
# takes several times as long as the work. Set before either is imported; processes inherit it.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# A proxy that this machine is set to use reaches no service of ours here.
os.environ["no_proxy"] = os.environ["NO_PROXY"] = "127.0.0.1,localhost"

# A deadline would time the machine, which is shared and noisy, and not the code.
settings.register_profile("softdict", deadline=None)
settings.load_profile("softdict")

# What a shell starts with "&" ignores Ctrl-C, and so would the processes that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
