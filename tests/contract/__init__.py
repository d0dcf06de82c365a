"""One contract, several hosts: what Staffel takes for granted of Ollama's native API.

The cases run against the small local model, against the tests' scripted host, and against a real Ollama where
`OLLAMA_HOST` names one that answers, with the model `STAFFEL_TEST_MODEL` (smollm2:135m, unless it says another), which
must be pulled: `OLLAMA_HOST=127.0.0.1 python -m pytest tests/contract`. Without that variable there is no case for it,
skipped or not.
"""
