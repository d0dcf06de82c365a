"""Reading documents: text, Markdown, PDF and e-mail as clean text, or a reason that a person understands."""

from staffel.documents.parsers import Unreadable, cleaned, printable
from staffel.documents.reading import MAX_BYTES, SUFFIXES, Document, NoSuchPath, find, read

__all__ = ["MAX_BYTES", "SUFFIXES", "Document", "NoSuchPath", "Unreadable", "cleaned", "find", "printable", "read"]
