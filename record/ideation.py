"""Statements from the user's documents, each with its location; and results of ideation: searches, estimates, ideas."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from labwright.record.machine import ComputeRate
from labwright.record.schema import FrozenModel, is_empty
from labwright.record.schema.idea import Idea


class DocumentStatement(FrozenModel):
    """One statement of a document."""

    text: str = Field(min_length=1, max_length=600, description="one sentence in your own words")
    page: int = Field(ge=1, description="the page (or part) that says it")
    quote: str = Field(default="", max_length=400, description="up to thirty words of that page, copied; else empty")


class DocumentDigest(FrozenModel):
    """A document and the statements extracted from it."""

    file: str = Field(description="file name as given by the user")
    stored: str = Field(description="path of the run's own copy, relative to its folder")
    sha256: str
    pages: int
    unit: Literal["p.", "part"] = Field(default="p.", description="unit of locations: pages of a PDF, or parts")
    subject: str = Field(default="", description="topic of the document, in one sentence")
    statements: tuple[DocumentStatement, ...] = ()
    dropped: int = Field(default=0, description="statements whose page or quote does not exist")
    unread: int = 0
    """Upper bound on the number of characters left out because the document is long."""

    def format_place(self, page: int) -> str:
        """Return a location in the document in the form used by prompts and reports: `[name.pdf p. 3]`."""
        return f"[{self.file} {self.unit} {page}]"


NoveltyLevel = Literal["unchecked", "nothing_found", "compared"]
"""The status of a novelty check. No value means that an idea is novel, since no search can show that."""

DataOrigin = Literal["catalogue", "own", "hub", "synthetic", "other"]


class AvailableResources(FrozenModel):
    """Resources of a run: the machine, its limits, data and packages."""

    processor: str
    cores: int
    memory_gb: float = Field(description="10^9 bytes")
    gpus: tuple[str, ...] = ()
    gpu_memory_gb: float = 0.0
    """Memory of the smallest GPU, 10^9 bytes; 0: no GPU, or unknown."""
    hours: float = Field(description="time limit of a whole run")
    node_hours: float = Field(description="time limit of one experiment")
    workers: int = 1
    rate: ComputeRate | None = Field(default=None, description="measured speed of experiments; None: not measured")
    packages: tuple[str, ...] = Field(default=(), description="name and version")
    installable: tuple[str, ...] = Field(default=(), description="further packages that a run can install")
    datasets: tuple[str, ...] = Field(default=(), description="names known to `lab.data`, the user's own first")
    own: tuple[str, ...] = Field(default=(), description="datasets among these that are the user's own")
    described: tuple[str, ...] = Field(default=(), description="one-line description of each dataset")
    metrics: tuple[str, ...] = Field(default=(), description="metrics computed from submitted predictions")
    experiments: int = 0
    """Maximum number of experiments in a study, without replicates; 0: unknown."""
    pretrained: tuple[str, ...] = ()
    network: bool = Field(default=False, description="whether experiments have network access")
    fetching: bool = Field(default=False, description="whether this machine can download data from the hub")


class RequiredDataset(FrozenModel):
    """A dataset that an idea needs."""

    name: str = Field(min_length=1, max_length=120)
    source: DataOrigin = Field(description="catalogue, own: in the machine's list; hub: OWNER/SET; synthetic: by code")


class ResourceEstimate(FrozenModel):
    """A model's estimate of the resources that an idea needs on the given machine."""

    hours: float = Field(gt=0, le=100_000, description="wall-clock time of the study, with all stages and replicates")
    node_hours: float = Field(gt=0, le=100_000, description="wall-clock time of its longest single experiment")
    gpu_memory_gb: float = Field(default=0.0, ge=0, le=100_000, description="10^9 bytes; 0: the CPU is enough")
    data: tuple[RequiredDataset, ...] = Field(min_length=1, max_length=12)
    packages: tuple[str, ...] = Field(default=(), max_length=30, description="importable names, without versions")
    pretrained: tuple[str, ...] = Field(default=(), max_length=12, description="models, as OWNER/NAME")
    network: bool = Field(default=False, description="whether the experiments themselves need a network")
    reason: str = Field(min_length=1, max_length=1500, description="how the hours were calculated")


class Feasibility(FrozenModel):
    """Whether an estimate is within the available resources, as computed by the program. `why` is empty if it is."""

    fits: bool
    why: tuple[str, ...] = ()


class FoundPaper(FrozenModel):
    """A paper as returned by a source."""

    title: str
    authors: tuple[str, ...] = ()
    year: int | None = None
    venue: str = ""
    abstract: str = Field(default="", description="empty: the source has none")
    identifier: str = Field(default="", description="doi:..., arxiv:... or a URL")
    source: str = ""


class LiteratureSearch(FrozenModel):
    """One executed query. `answered` lists the sources that answered, `silent` the others with reasons."""

    query: str
    answered: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    works: tuple[FoundPaper, ...] = ()


class ClosestWork(FrozenModel):
    """A paper found by a search, and how the idea differs from its abstract."""

    work: FoundPaper
    difference: str
    quote: str = Field(default="", description="quote from its abstract, verified to occur there")


class StudyFinding(FrozenModel):
    """A result of a study that a next study could follow (`record.claims.open_questions`)."""

    key: str = Field(min_length=1, description="what the record calls it: `hypothesis/drop`, `ablation/no-decay`")
    verdict: str = Field(min_length=1, description="its verdict in the record")
    quote: str = Field(description="a sentence about it, written by the program from the record")


class IdeaReason(FrozenModel):
    """A reason for an idea that follows a study."""

    key: str = Field(min_length=1, max_length=200, description="key of a finding of the study, copied")
    verdict: str = Field(min_length=1, max_length=40, description="verdict of this finding, copied")
    why: str = Field(min_length=1, max_length=1000, description="how this finding leads to the idea")


class FollowedStudy(FrozenModel):
    """A study that an idea follows, with the findings that may lead to the idea."""

    run: str = Field(description="name of its folder")
    idea: Idea
    findings: tuple[StudyFinding, ...] = Field(min_length=1)

    def find_finding(self, reason: IdeaReason) -> StudyFinding:
        """Return the finding that a reason names. Raises `ValueError` if the record does not agree with the reason."""
        found = next((one for one in self.findings if one.key == reason.key), None)
        if found is None:
            known = ", ".join(one.key for one in self.findings)
            raise ValueError(f"reasons: the record has no finding {reason.key!r}: use one of {known}")
        if reason.verdict != found.verdict:
            raise ValueError(f"reasons: the verdict of {reason.key} is {found.verdict!r}, not {reason.verdict!r}")
        return found


class IdeaOrigin(FrozenModel):
    """The study that an idea follows, and the reasons, each with the finding of the record that it names."""

    run: str
    reasons: tuple[tuple[StudyFinding, str], ...] = Field(description="(finding, why it leads to the idea)")


class FinalIdea(FrozenModel):
    """An idea with all its checks."""

    idea: Idea
    novelty: NoveltyLevel
    novelty_statement: str = Field(description="description of the checks")
    queries: tuple[str, ...] = Field(min_length=1)
    closest: tuple[ClosestWork, ...] = ()
    estimate: ResourceEstimate
    fit: Feasibility
    remarks: tuple[str, ...] = Field(default=(), description="remaining problems, and text removed by rules")
    origin: IdeaOrigin | None = Field(default=None, exclude_if=is_empty)
    """The study that it follows."""

    def to_json(self) -> dict[str, Any]:
        """Return AI-Scientist-v2's keys unchanged, followed by additional keys that other readers ignore."""
        fields = {
            key: value
            for key, value in self.idea.model_dump(mode="json", by_alias=True).items()
            if value or key not in ("Datasets", "Metric", "Code", "Anchors")
        }
        return fields | self.model_dump(mode="json", exclude={"idea"})
