"""All roles of models that the product asks, by name; those of benchmarks are in `evals`."""

from __future__ import annotations

from collections.abc import Mapping

from labwright.models.roles.claim_reader import CLAIM_READER, SECOND_CLAIM_READER, SETUP_READER
from labwright.models.roles.experiment_code import CODE, CODER
from labwright.models.roles.figures import FIGURE_REVIEW, FIGURES, PLOT, VISION
from labwright.models.roles.ideation import DIGEST, IDEA, IDEA_MATCH, IDEA_OF, IDEA_REFLECT, PROPOSAL, RELATED_WORK
from labwright.models.roles.judge import INFLUENCE, JUDGE, PREFER
from labwright.models.roles.node_assessment import CODE_READER, COMPARE, FEEDBACK, SUMMARY
from labwright.models.roles.paper_revision import (
    ADDENDUM,
    CITE_ASK,
    CITE_SELECT,
    COPY_EDIT,
    REFLECT,
    RESPOND,
    REVIEWER_REQUESTS,
)
from labwright.models.roles.paper_writing import OUTLINE, WRITE
from labwright.models.roles.repository import QUESTION_CONCLUSION, QUESTION_DESIGN
from labwright.models.roles.role import AnyRole
from labwright.models.roles.study_plan import (
    ABLATION_PLAN,
    MISSING_ABLATIONS,
    PLAN,
    PRIOR_SEARCH,
    PRIOR_WORK,
    PROTOCOL_REVIEW,
    REPOSITORY_PLAN,
)

ROLES: Mapping[str, AnyRole] = {
    role.name: role
    for role in (
        PLAN,
        CODE,
        PLOT,
        VISION,
        FEEDBACK,
        COMPARE,
        SUMMARY,
        FIGURES,
        OUTLINE,
        WRITE,
        REFLECT,
        CLAIM_READER,
        SECOND_CLAIM_READER,
        SETUP_READER,
        COPY_EDIT,
        JUDGE,
        FIGURE_REVIEW,
        ABLATION_PLAN,
        MISSING_ABLATIONS,
        CITE_ASK,
        CITE_SELECT,
        IDEA,
        IDEA_REFLECT,
        IDEA_MATCH,
        RELATED_WORK,
        PROPOSAL,
        IDEA_OF,
        DIGEST,
        PREFER,
        PRIOR_SEARCH,
        PRIOR_WORK,
        PROTOCOL_REVIEW,
        REPOSITORY_PLAN,
        QUESTION_DESIGN,
        QUESTION_CONCLUSION,
        INFLUENCE,
        CODE_READER,
        CODER,
        REVIEWER_REQUESTS,
        ADDENDUM,
        RESPOND,
    )
}
