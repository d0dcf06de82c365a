"""A small real model on this machine, behind Ollama's native API.

For a machine without Ollama: llama.cpp (the optional extra `llamacpp`) answers `/api/chat` and `/api/generate` on
loopback, one request at a time, with the chunks, counts, timings and errors that Ollama gives; it loads and unloads as
Ollama does. The default model has 135 million parameters: it makes the path real, not the answers good.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from staffel.local_model.errors import LocalModelError, ModelBroken, ModelMissing, PortTaken
    from staffel.local_model.probe import running_ollama
    from staffel.local_model.server import DEFAULT_PORT, local_model, serve
    from staffel.local_model.weights import DEFAULT_NAME, model_file

__all__ = [
    "DEFAULT_NAME",
    "DEFAULT_PORT",
    "LocalModelError",
    "ModelBroken",
    "ModelMissing",
    "PortTaken",
    "local_model",
    "model_file",
    "running_ollama",
    "serve",
]

_PLACES = {
    "DEFAULT_NAME": "weights",
    "DEFAULT_PORT": "server",
    "local_model": "server",
    "model_file": "weights",
    "running_ollama": "probe",
    "serve": "server",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the above
    """Loaded when it is asked for: llama.cpp's own process needs none of it, and half a second less to start."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES.get(name, 'errors')}"), name)
