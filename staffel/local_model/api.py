"""Ollama's native HTTP API before one model, one request at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from time import perf_counter_ns
from typing import Any

import aiohttp
from aiohttp import web

from staffel.local_model.errors import GenerationFailed, RequestRefused
from staffel.local_model.guard import only_this_machine
from staffel.local_model.model import Facts, Finish, Model
from staffel.local_model.question import Question, find_model

VERSION = "0.33.0+staffel"  # the Ollama whose API this is, and who gives it
_MOST_BYTES = 64 * 2**20
_FAMILY = "llama"

type _Chunk = dict[str, Any]
