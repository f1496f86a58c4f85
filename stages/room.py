"""Whether the models read enough for a study, said before any code is written.

The idea's claim, the data plan, what a node must measure and code are never cut (`models.cutting`), so a model must
have room for them: whoever writes an experiment for its answer, whoever judges one for its code.

Not guaranteed: that later prompts fit, which carry a parent's code and results as well. Of one that does not, the node
fails, and the record says why.
"""

from __future__ import annotations

from models.errors import ContextTooLong, ModelConfigError
from models.roles import CodeInputs, FeedbackInputs, Program, Study
from record.nouns.nodes import Verdict
from stages.bench import Bench
from stages.memory.briefs import GOALS

PROGRAM = 24_000
"""Characters of an experiment with its plots, as models write them."""


async def check_room(bench: Bench, study: Study) -> None:
    """Refuse a study whose prompts its models cannot read. Raises `ModelConfigError`."""
    shared = {name: getattr(study, name) for name in Study.model_fields}
    code = CodeInputs(
        **shared, stage="preliminary", kind="draft", goal=GOALS["preliminary"], node_seconds=bench.node_seconds,
        device=bench.device, network=bench.network, lab_reference=bench.lab_reference, packages=bench.packages,
        pretrained=bench.pretrained)
    judged = FeedbackInputs(
        **shared, stage="preliminary", kind="draft", plan="", varies="", experiment="", measurements=())
    try:
        await bench.models.check_room("code", code, Program, beside=PROGRAM)
        await bench.models.check_room("feedback", judged, Verdict, beside=PROGRAM)
    except ContextTooLong as error:
        idea, plan = (len(one.model_dump_json()) for one in (study.idea, study.data_plan))
        raise ModelConfigError(f"{error}; here the idea has {idea} characters and the data plan {plan}, which are "
                               "never cut: shorten the longer one") from None
