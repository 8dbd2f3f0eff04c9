"""Property tests whose verdict does not hang on how busy the machine is."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

CALM = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
