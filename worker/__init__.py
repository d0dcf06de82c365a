"""How it is done. `celery -A worker worker` finds the app in `worker.celery`."""
