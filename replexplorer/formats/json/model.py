"""What every JSON shape is made of.

Law: times are milliseconds unless the name says otherwise, sizes bytes, rates per second, clock
times UTC. A figure that is not known is null. A field whose source is not built yet is null too.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

Scalar = int | float | str
"""A knob's value: a number in the knob's unit or a lower-case word."""


class JsonObject(BaseModel):
    """A part of a JSON document; unknown fields are refused so that code and contract stay one.

    Each is built when it is first used: a verb uses few of them.
    """

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="null", defer_build=True)
