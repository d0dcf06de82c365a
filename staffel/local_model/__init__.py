"""A small real model on this machine, behind Ollama's native API.

For a machine without Ollama: llama.cpp (the optional extra `llamacpp`) answers `/api/chat` on loopback, one request
at a time, with the chunks, counts, timings and errors that Ollama gives. The default model has 135 million
parameters: it makes the path real, not the answers good.
"""

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
