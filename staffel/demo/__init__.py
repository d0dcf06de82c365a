"""All of it on real input: three scenes of a failing chain, then a batch of documents."""
