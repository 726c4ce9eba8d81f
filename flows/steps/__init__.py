"""The steps of a run, by what they make: what a part does, and how a step begins and ends."""
