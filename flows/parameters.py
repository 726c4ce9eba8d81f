"""Types of the flows' parameters, with the bounds that a Prefect server checks before a run starts.

What Prefect shows beside each is its line in the flow's docstring, which has to be in the style
that Prefect reads. Bounds that hold between parameters are checked by `flows.config`.
"""

from typing import Annotated, Literal

from pydantic import Field

K = Annotated[int, Field(ge=5)] | None
Noise = Literal["crossfit", "minmax"]
Rule = Literal["corrected", "rknn"]
Rate = Annotated[float, Field(ge=0, lt=1)] | None
Builder = Literal["auto", "pynndescent", "exact"]
BlockRows = Annotated[int, Field(ge=10)] | None
Scale = Literal["none", "range", "standard"]
Recall = Annotated[float, Field(gt=0, le=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
WorkerCount = Annotated[int, Field(ge=0)] | None
Seconds = Annotated[float, Field(gt=0)]
