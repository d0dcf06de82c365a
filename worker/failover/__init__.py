"""The engine: it walks a plan, stage after stage, until one answers. No Celery, no Redis, no network in here."""
