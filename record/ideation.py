"""What a person's documents say, each statement with its place; and what ideation finds: searches, estimates, ideas."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from labwright.record.machine import ComputeRate
from labwright.record.schema.frozen_model import FrozenModel
from labwright.record.schema.idea import Idea


class DocumentStatement(FrozenModel):
    """One thing that a document says."""

    text: str = Field(min_length=1, max_length=600, description="one sentence in your own words")
    page: int = Field(ge=1, description="the page (or part) that says it")
    quote: str = Field(
        default="",
        max_length=400,
        description="up to thirty words of that page, copied word for word; empty where none says it in short",
    )


class DocumentDigest(FrozenModel):
    """A document and what was taken from it."""

    file: str = Field(description="its name, as the person gave it")
    stored: str = Field(description="the run's own copy, relative to its folder")
    sha256: str
    pages: int
    unit: Literal["p.", "part"] = Field(default="p.", description="how places in it are named: pages of a PDF, parts")
    subject: str = Field(default="", description="what it is about, in one sentence")
    statements: tuple[DocumentStatement, ...] = ()
    dropped: int = Field(default=0, description="statements whose page or quote is not in it")
    unread: int = Field(default=0, description="characters at most that were left out since the document is long")

    def format_place(self, page: int) -> str:
        """A place in it as prompts and reports name it: `[name.pdf p. 3]`."""
        return f"[{self.file} {self.unit} {page}]"


NoveltyLevel = Literal["unchecked", "nothing_found", "compared"]
"""What was looked at. No value says that an idea is new: no search can show that."""

DataOrigin = Literal["catalogue", "own", "hub", "synthetic", "other"]


class AvailableResources(FrozenModel):
    """What a run has at hand: the machine, its limits, and what can be had on it."""

    processor: str
    cores: int
    memory_gb: float = Field(description="10^9 bytes")
    gpus: tuple[str, ...] = ()
    gpu_memory_gb: float = Field(default=0.0, description="of the smallest GPU, 10^9 bytes; 0: none, or not known")
    hours: float = Field(description="time limit of a whole run")
    node_hours: float = Field(description="time limit of one experiment")
    workers: int = 1
    rate: ComputeRate | None = Field(default=None, description="how fast experiments run; None: not measured")
    packages: tuple[str, ...] = Field(default=(), description="name and version")
    installable: tuple[str, ...] = Field(default=(), description="packages that a run can have beside these")
    datasets: tuple[str, ...] = Field(default=(), description="names that `lab.data` knows, the user's own first")
    own: tuple[str, ...] = Field(default=(), description="which of these are the user's own")
    described: tuple[str, ...] = Field(default=(), description="what each of them is, in one line")
    metrics: tuple[str, ...] = Field(default=(), description="that are computed from predictions handed in")
    experiments: int = Field(default=0, description="experiments of a study at most, without replicates; 0: not known")
    pretrained: tuple[str, ...] = ()
    network: bool = Field(default=False, description="whether experiments reach the network")
    fetching: bool = Field(default=False, description="whether this machine reaches the hub for data")


class RequiredDataset(FrozenModel):
    """A dataset that an idea needs."""

    name: str = Field(min_length=1, max_length=120)
    source: DataOrigin = Field(
        description="catalogue or own: a name that the machine's list has; hub: OWNER/SET; "
        "synthetic: made by the experiment's code; other: anything else"
    )


class ResourceEstimate(FrozenModel):
    """What a model thinks that an idea takes on the machine that it was shown."""

    hours: float = Field(gt=0, le=100_000, description="wall clock of the whole study, all stages and replicates")
    node_hours: float = Field(gt=0, le=100_000, description="wall clock of its longest single experiment")
    gpu_memory_gb: float = Field(default=0.0, ge=0, le=100_000, description="10^9 bytes; 0: the CPU is enough")
    data: tuple[RequiredDataset, ...] = Field(min_length=1, max_length=12)
    packages: tuple[str, ...] = Field(default=(), max_length=30, description="importable names, without versions")
    pretrained: tuple[str, ...] = Field(default=(), max_length=12, description="models, as OWNER/NAME")
    network: bool = Field(default=False, description="whether the experiments themselves need a network")
    reason: str = Field(min_length=1, max_length=1500, description="how the hours were counted")


class Feasibility(FrozenModel):
    """Whether an estimate is within the means, by a program. `why` is empty where it is."""

    fits: bool
    why: tuple[str, ...] = ()


class FoundPaper(FrozenModel):
    """A paper as a source returned it."""

    title: str
    authors: tuple[str, ...] = ()
    year: int | None = None
    venue: str = ""
    abstract: str = Field(default="", description="empty: the source gave none")
    identifier: str = Field(default="", description="doi:..., arxiv:... or a URL")
    source: str = ""


class LiteratureSearch(FrozenModel):
    """One executed query. `answered` names the sources that gave an answer, `silent` those that did not, and why."""

    query: str
    answered: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    works: tuple[FoundPaper, ...] = ()


class ClosestWork(FrozenModel):
    """A paper that a search returned, and how the idea differs from what its abstract says."""

    work: FoundPaper
    difference: str
    quote: str = Field(default="", description="of its abstract; found there by a program")


class FinalIdea(FrozenModel):
    """An idea with all that is known of it."""

    idea: Idea
    novelty: NoveltyLevel
    novelty_statement: str = Field(description="what was looked at, in words")
    queries: tuple[str, ...] = Field(min_length=1)
    closest: tuple[ClosestWork, ...] = ()
    estimate: ResourceEstimate
    fit: Feasibility
    remarks: tuple[str, ...] = Field(default=(), description="what stayed wrong, or was struck out by rule")

    def to_json(self) -> dict[str, Any]:
        """AI-Scientist-v2's keys, unchanged, then ours, which other readers ignore."""
        fields = {
            key: value
            for key, value in self.idea.model_dump(mode="json", by_alias=True).items()
            if value or key not in ("Datasets", "Metric", "Code", "Anchors")
        }
        closest = [
            {
                "Title": one.work.title,
                "Authors": list(one.work.authors),
                "Year": one.work.year,
                "Identifier": one.work.identifier,
                "Difference": one.difference,
                "Quote": one.quote,
            }
            for one in self.closest
        ]
        return fields | {
            "Novelty": {"Status": self.novelty, "Said": self.novelty_statement, "Queries": list(self.queries)},
            "Closest Papers": closest,
            "Feasibility": {"Fits": self.fit.fits, "Why": list(self.fit.why), **self.estimate.model_dump(mode="json")},
            "Remarks": list(self.remarks),
        }
