"""What can be asked: `from tasks import ask; ask.delay({"prompt": "..."})`."""

from tasks.ask import ask
from tasks.summarize import summarize

__all__ = ["ask", "summarize"]
