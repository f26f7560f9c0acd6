"""Settings of all tests."""

from hypothesis import settings

# A deadline would time the machine, which is shared and noisy, and not the code.
settings.register_profile("softdict", deadline=None)
settings.load_profile("softdict")
