"""Somebody else's Celery app on the same Redis: no Staffel in it, stock settings, late acknowledgement."""

from __future__ import annotations

import os

from tests.nodes import House, Worker

QUEUE = "shop"

MODULE = """
import os, time
from celery import Celery

app = Celery("shop", broker=os.environ["SHOP_URL"], backend=os.environ["SHOP_URL"])
app.conf.update(task_default_queue="shop", task_acks_late=True, worker_prefetch_multiplier=1,
                broker_connection_retry_on_startup=True)

@app.task(name="shop.shout")
def shout(answer):
    return answer["text"].upper()

@app.task(name="shop.count")
def count(answers):
    return [answer["stage"] for answer in answers]

@app.task(name="shop.bake", bind=True)
def bake(self, seconds):
    self.app.backend.client.rpush("shop:baked", self.request.id)
    time.sleep(seconds)
    return "cake"
"""


def shop_of(house: House) -> Worker:
    """Its worker, not started yet."""
    folder = house.folder / "shop"
    folder.mkdir()
    (folder / "shop.py").write_text(MODULE)
    options = ("-P", "threads", "-c", "4", "-E", "-n", "shop@%h")
    return Worker(*options, app="shop", environ={**os.environ, "SHOP_URL": house.url}, folder=folder)
