"""A research question about a repository, the experiment that answers it, and its measurements."""

from __future__ import annotations

from pydantic import Field

from labwright.record.schema.frozen_model import FrozenModel


class ResearchQuestion(FrozenModel):
    """The question. `run` and `measure` describe the unmodified repository, if the user gave them."""

    question: str
    method: str = ""
    instructions: str = ""
    run: tuple[str, ...] = Field(default=(), description="command with {seed}")
    measure: str = Field(default="", description="where its metric is read, in the format of --metric")
    better: str = Field(default="max", description="max or min")
    seeds: int = Field(default=3, ge=1, le=50)
    minutes: float = Field(default=40.0, gt=0)
    may_edit: tuple[str, ...] = Field(default=(), description="patterns of files that may change; empty: any")
    protect: tuple[str, ...] = Field(default=(), description="patterns of files that must not change")


class ExperimentVariable(FrozenModel):
    name: str = Field(min_length=1, max_length=120)
    value: str = Field(min_length=1, max_length=600, description="its value, or all its values")


class DesignedArm(FrozenModel):
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=40)
    what: str = Field(min_length=1, max_length=400)


class DesignedMetric(FrozenModel):
    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]*$", max_length=40)
    higher_is_better: bool
    what: str = Field(min_length=1, max_length=400)
    margin: float | None = Field(
        default=None,
        gt=0,
        description="of the metric that decides: the smallest difference that matters, in its unit; the question's, if "
        "it names one",
    )


class ExperimentDesign(FrozenModel):
    """The experiment, recorded before any file is changed."""

    constants: tuple[ExperimentVariable, ...] = Field(
        default=(), max_length=30, description="settings that are equal for all arms"
    )
    varied: tuple[ExperimentVariable, ...] = Field(
        min_length=1, max_length=12, description="settings that differ between the arms"
    )
    arms: tuple[DesignedArm, ...] = Field(min_length=2, max_length=20)
    metrics: tuple[DesignedMetric, ...] = Field(min_length=1, max_length=8)
    seeds: int = Field(ge=1, le=50, description="number of repetitions of each arm in the first run, with seeds from 0")
    hypothesis: str = Field(min_length=1, max_length=1200)
    rule: str = Field(min_length=1, max_length=1200, description="the measurement that decides it, and the rule")

    @property
    def statements(self) -> tuple[str, ...]:
        """The design as a list of constants, varied quantities, arms and metrics."""
        return (
            *(f"constant: {one.name} = {one.value}" for one in self.constants),
            f"constant: seeds = 0 to {self.seeds - 1}",
            *(f"varied: {one.name} = {one.value}" for one in self.varied),
            *(f"arm {one.name}: {one.what}" for one in self.arms),
            *(
                f"measured: {one.name}: {one.what}"
                + (f"; differences below {one.margin:g} do not matter" if one.margin is not None else "")
                for one in self.metrics
            ),
            f"hypothesis: {self.hypothesis}",
            f"rule: {self.rule}",
        )
