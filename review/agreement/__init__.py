"""How a judge agrees with people who read the same papers, beside controls that a useless judge would pass.

docs/agreement.md says what each figure is worth.
"""

from __future__ import annotations

from review.agreement.errors import AgreementError, NoPairsError, TableError
from review.agreement.report import Agreement, DimensionAgreement, agreement
from review.agreement.tables import ScaleRange, named

__all__ = ["Agreement", "AgreementError", "DimensionAgreement", "NoPairsError", "ScaleRange", "TableError", "agreement",
           "named"]
