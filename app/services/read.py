"""Reading for the API and the pages: each call is one short transaction."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine

from app.store import reads
from app.store.engine import reading
from app.store.narrow import CaseFilter
from app.store.records import (
    AlertRecord,
    CaseRecord,
    CaseSummary,
    DecisionRecord,
    EvidenceRecord,
    InterpretationRecord,
    Page,
    PricePoint,
)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads of one request."""

    engine: Engine

    def cases(
        self,
        *,
        state: str | None,
        verdict: str | None,
        tag: str | None,
        entity: str | None,
        q: str | None,
        min_price: float | None,
        sort: str,
        cursor: str | None,
        limit: int,
    ) -> Page[CaseSummary]:
        """One page of cases."""
        wanted = CaseFilter(state=state, verdict=verdict, tag=tag, entity=entity, q=q, min_price=min_price)
        with reading(self.engine) as connection:
            return reads.case_list(connection, wanted, sort, cursor, limit)

    def case(self, slug: str) -> CaseRecord:
        """A case but for its histories.

        Raises:
            NotFound: there is no such case.
        """
        with reading(self.engine) as connection:
            return reads.whole_case(connection, slug)

    def evidence(self, slug: str) -> tuple[EvidenceRecord, ...]:
        """All evidence of a case."""
        with reading(self.engine) as connection:
            return reads.evidence_list(connection, slug)

    def evidence_page(self, slug: str, cursor: str | None, limit: int) -> Page[EvidenceRecord]:
        """One page of a case's evidence, by number."""
        with reading(self.engine) as connection:
            return reads.evidence_page(connection, slug, cursor, limit)

    def interpretations(self, slug: str) -> tuple[InterpretationRecord, ...]:
        """The latest interpretations, newest first."""
        return self.interpretation_page(slug, None, 200).items

    def interpretation_page(self, slug: str, cursor: str | None, limit: int) -> Page[InterpretationRecord]:
        """One page of interpretations, newest first."""
        with reading(self.engine) as connection:
            return reads.interpretation_list(connection, slug, cursor, limit)

    def decisions(self, slug: str, *, cursor: str | None = None, limit: int = 200) -> Page[DecisionRecord]:
        """One page of the decision trace, newest first."""
        with reading(self.engine) as connection:
            return reads.decision_list(connection, slug, cursor, limit)

    def prices(self, slug: str) -> tuple[PricePoint, ...]:
        """The latest prices, oldest first."""
        return tuple(reversed(self.price_page(slug, None, 500).items))

    def price_page(self, slug: str, cursor: str | None, limit: int) -> Page[PricePoint]:
        """One page of prices, newest first."""
        with reading(self.engine) as connection:
            return reads.price_list(connection, slug, cursor, limit)

    def alerts(
        self,
        *,
        slug: str | None = None,
        route: str | None,
        since: datetime | None,
        cursor: str | None,
        limit: int,
    ) -> Page[AlertRecord]:
        """One page of routing decisions, newest first."""
        with reading(self.engine) as connection:
            return reads.alert_list(
                connection, slug=slug, route=route, since=since, cursor=cursor, limit=limit
            )

    def file(self, sha256: str) -> tuple[str, bytes]:
        """Name and bytes of a raw file.

        Raises:
            NotFound: no such file is kept.
        """
        with reading(self.engine) as connection:
            return reads.blob(connection, sha256)
