"""The user's repository that a study is about, the ablation of its parts, and the answer to a question about it."""

from __future__ import annotations

from dataclasses import dataclass, field

from labwright.record.events import repository_events


@dataclass
class RepositoryState:
    """A repository, its environment and its baseline; empty if the study is not about one."""

    imported: repository_events.RepositoryImported | None = None
    environment: repository_events.EnvironmentBuilt | None = None
    command: repository_events.CommandFound | None = None
    repairs: list[repository_events.RepairTried] = field(default_factory=list[repository_events.RepairTried])
    baseline: repository_events.BaselineChecked | None = None

    def apply(self, event: repository_events.RepositoryEvent) -> None:
        """Fold one event of the repository into the state, in place."""
        match event:
            case repository_events.RepositoryImported():
                self.imported = event
            case repository_events.EnvironmentBuilt():
                self.environment = event
            case repository_events.CommandFound():
                self.command = event
            case repository_events.RepairTried():
                self.repairs.append(event)
            case repository_events.BaselineChecked():
                self.baseline = event


@dataclass
class AblationState:
    """The parts of a repository that an ablation removes, and the results."""

    parts: repository_events.PartsFound | None = None
    tried_mutations: dict[tuple[str, int], repository_events.MutationTried] = field(
        default_factory=dict[tuple[str, int], repository_events.MutationTried]
    )
    """Outcome of each mutation by part and index."""
    results: repository_events.AblationsConcluded | None = None

    def apply(self, event: repository_events.AblationEvent) -> None:
        """Fold one event of an ablation into the state, in place."""
        match event:
            case repository_events.PartsFound():
                self.parts = event
            case repository_events.MutationTried():
                self.tried_mutations[event.part, event.way] = event
            case repository_events.AblationsConcluded():
                self.results = event


@dataclass
class QuestionState:
    """The experiment for a question about a repository, and the answer."""

    design: repository_events.QuestionDesigned | None = None
    answer: repository_events.QuestionAnswered | None = None

    def apply(self, event: repository_events.QuestionEvent) -> None:
        """Fold one event of a question into the state, in place."""
        match event:
            case repository_events.QuestionDesigned():
                self.design = event
            case repository_events.QuestionAnswered():
                self.answer = event
