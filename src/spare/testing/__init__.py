"""Checks that users run on what they make: `check_model` on a transition model, `check_domain` on a domain.

from spare.testing import check_domain, check_model

print(check_domain(domain, data))
check_model(model, data).require()
"""

from spare.testing.domains import check_domain
from spare.testing.models import check_model
from spare.testing.report import Finding, Report

__all__ = ["Finding", "Report", "check_domain", "check_model"]
