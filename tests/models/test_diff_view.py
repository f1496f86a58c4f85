"""A judge of a child of a sound parent is shown what changed, and what that has to do with."""

from __future__ import annotations

from labwright.models.prompt_filters import format_changes

FILLER = "".join(f"    step_{k} = {k}\n" for k in range(40))
HEAD = "import lab\n\nRATE = 0.1\nEPOCHS = 20\n\n\n"
BEFORE = f"{HEAD}def other():\n{FILLER}\n\ndef train(x):\n    scaled = RATE * x\n{FILLER}\n"


def test_changed_lines_come_with_their_context() -> None:
    after = BEFORE.replace("RATE = 0.1", "RATE = 0.3")
    shown = format_changes(
        {"experiment.py": after, "common.py": "X = 1\n"}, {"experiment.py": BEFORE, "common.py": "X = 1\n"}
    )
    assert "-RATE = 0.1" in shown and "+RATE = 0.3" in shown and " EPOCHS = 20" in shown
    assert "@@ -1," in shown and "step_20" not in shown and len(shown) < len(after) / 2
    assert "common.py: unchanged, 1 lines" in shown


def test_what_is_mostly_new_is_shown_whole() -> None:
    new = BEFORE.replace("step", "turn").replace("RATE", "PACE")
    shown = format_changes({"experiment.py": new, "more.py": "Y = 2\n"}, {"experiment.py": BEFORE, "old.py": "Z = 3\n"})
    assert new.strip() in shown and "Y = 2" in shown and "old.py: removed" in shown and "Z = 3" not in shown
