"""When passes are made. The only module that knows APScheduler; what a pass does stands in
`app.services.passes`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, timedelta
from typing import Final

from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger
from sqlalchemy import Engine

from app.services.judge import Desk
from app.services.passes import horizon_pass

log = logging.getLogger("assay.schedule")

GRACE: Final = timedelta(minutes=30)
"""How late a pass may still start; a later one is caught up with at the next start or hour."""


def start(engine: Engine, desk: Callable[[], Desk]) -> BackgroundScheduler:
    """Start the hourly passes, the one of the current hour at once. Several servers may do so: the ledger
    makes each hour's pass happen once."""
    scheduler = BackgroundScheduler(timezone=UTC)

    def horizon() -> None:
        here = desk()
        report = horizon_pass(engine, here.now, here)
        log.info("horizon pass %s: %s", report.hour.isoformat(), report)

    scheduler.add_job(
        horizon,
        CronTrigger(minute=0, timezone=UTC),
        id="horizon",
        coalesce=True,
        max_instances=1,
        misfire_grace_time=int(GRACE.total_seconds()),
        next_run_time=desk().now,
    )
    scheduler.start()
    return scheduler
