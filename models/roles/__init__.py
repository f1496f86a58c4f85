"""Every role that a model plays, by its name."""

from __future__ import annotations

from collections.abc import Mapping

from models.roles.ablations import ABLATION_MATCH, PAPER_ABLATIONS, REQUEST_MATCH, REVIEW_REQUESTS
from models.roles.answering import ANSWER_CHANGE, ANSWER_CONCLUSION, ANSWER_CONDUCT, ANSWER_DESIGN
from models.roles.assessing import COMPARE, FEEDBACK, SUMMARY
from models.roles.coding import CODE
from models.roles.extracting import PAPER_QUESTIONS, QUESTION_SCRIPTS, SCRIPT_STEPS
from models.roles.figures import FIGURE_REVIEW, FIGURES, PLOT, VISION
from models.roles.ideation import DIGEST, IDEA, IDEA_OF, IDEA_REFLECT, PROPOSAL, RELATED_WORK
from models.roles.influence import INFLUENCE
from models.roles.judge import JUDGE, PREFER
from models.roles.patching import ARM_PATCH
from models.roles.planning import ABLATION_PLAN, MISSING_ABLATIONS, PLAN, REPOSITORY_PLAN
from models.roles.protocol import PRIOR_SEARCH, PRIOR_WORK, PROTOCOL_REVIEW
from models.roles.questions import QUESTION_CODE, QUESTION_CONCLUSION, QUESTION_DESIGN
from models.roles.reading import CODE_READER
from models.roles.repository import COMMAND, PARTS, PATCH, PATCH_CHECK, REPAIR
from models.roles.revising import CITE_ASK, CITE_SELECT, READER, REFLECT, SCOPE
from models.roles.role import AnyRole
from models.roles.writing import OUTLINE, WRITE

ROLES: Mapping[str, AnyRole] = {role.name: role for role in (
    PLAN, CODE, PLOT, VISION, FEEDBACK, COMPARE, SUMMARY, FIGURES, OUTLINE, WRITE, REFLECT, SCOPE, READER, JUDGE,
    FIGURE_REVIEW,
    ABLATION_PLAN, MISSING_ABLATIONS, CITE_ASK, CITE_SELECT, IDEA, IDEA_REFLECT, RELATED_WORK, PROPOSAL, IDEA_OF,
    DIGEST, PREFER, PRIOR_SEARCH, PRIOR_WORK, PROTOCOL_REVIEW, COMMAND, REPAIR, PARTS, PATCH, PATCH_CHECK,
    ARM_PATCH, REPOSITORY_PLAN, PAPER_ABLATIONS, ABLATION_MATCH, REVIEW_REQUESTS, REQUEST_MATCH,
    ANSWER_DESIGN, ANSWER_CHANGE, ANSWER_CONCLUSION, ANSWER_CONDUCT,
    QUESTION_DESIGN, QUESTION_CODE, QUESTION_CONCLUSION,
    PAPER_QUESTIONS, QUESTION_SCRIPTS, SCRIPT_STEPS, INFLUENCE, CODE_READER)}
