"""One request, one answer."""

from __future__ import annotations

from tasks.job import JobTask, Result
from worker.celery import app


@app.task(base=JobTask, bind=True, name="tasks.ask")
def ask(self: JobTask, *args: object, **kwargs: object) -> Result:
    """Walk the failover chain of one request; `ask.delay({"prompt": "...", "chain": "default"})`."""
    return JobTask.run(self, *args, **kwargs)
