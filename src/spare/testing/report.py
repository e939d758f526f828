"""What a check found: one finding per problem, each with what to do about it."""

from __future__ import annotations

import dataclasses

from spare.errors import DefinitionError


@dataclasses.dataclass(frozen=True)
class Finding:
    """`subject` has `problem`; `advice` says what to do. A serious one breaks the contract, others are hints."""

    subject: str
    problem: str
    advice: str
    serious: bool = True

    def __str__(self) -> str:
        return f"{'!' if self.serious else '-'} {self.subject}: {self.problem}. {self.advice}"


@dataclasses.dataclass(frozen=True)
class Report:
    """All findings, and what was checked."""

    name: str
    checked: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing serious was found."""
        return not any(finding.serious for finding in self.findings)

    def require(self) -> Report:
        """The report itself, or a `DefinitionError` with every serious finding."""
        if not self.ok:
            raise DefinitionError("; ".join(str(finding) for finding in self.findings if finding.serious))
        return self

    def __str__(self) -> str:
        head = f"{self.name}: {len(self.checked)} checks ({', '.join(self.checked)})"
        return "\n".join([head, *map(str, self.findings)] if self.findings else [f"{head}; nothing found"])
